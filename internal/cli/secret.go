package cli

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/client"
)

func (a *app) secret() *cobra.Command {
	return a.parent("secret", "Manage the stored secrets of your organisation", a.secretSet(), a.secretList(), a.secretShow(), a.secretCheck(), a.secretRemove())
}

// maxSecret is the maximum size of a secret's value, in bytes.
const maxSecret = 32 << 10

func (a *app) secretSet() *cobra.Command {
	var hosts, agents []string
	c := &cobra.Command{
		Use:   "set NAME [VALUE]",
		Short: "Store a secret, or replace it",
		Long: `Store a secret. A run receives it only if the definition of its agent names
it: under 'secrets', as ${{ secrets.NAME }}, or as 'provider.apiKey'. Without VALUE
it is read from the terminal, or from standard input without its last line end.

With --hosts, the value is sent only to these hosts, and no agent can read it.
With --agents, only these agents can use the secret. If a secret is replaced
without these flags, its lists are kept; an empty list removes the limit.

Other users of this machine can see a VALUE on the command line.`,
		Args: exactly("NAME", "[VALUE]"),
	}
	c.Flags().StringSliceVar(&hosts, "hosts", nil, "the only hosts that receive the value: domain or *.domain, with an optional port (repeatable)")
	c.Flags().StringSliceVar(&agents, "agents", nil, "the only agents that can use the secret (repeatable)")
	c.RunE = a.do(func(ctx context.Context, c *cobra.Command, args []string) error {
		name, value, given := strings.Cut(args[0], "=")
		if len(args) == 2 {
			if given {
				return usage(c, "the value is given twice")
			}
			value, given = args[1], true
		}
		if !given {
			var err error
			if value, err = a.askSecret(ctx, name); err != nil {
				return err
			}
		}
		if value == "" {
			return usage(c, "the value of %s is empty", name)
		}
		n := stint.NewSecret{Value: value}
		if c.Flags().Changed("hosts") {
			n.Hosts = append([]string{}, hosts...)
		}
		if c.Flags().Changed("agents") {
			n.Agents = append([]string{}, agents...)
		}
		return a.setSecret(ctx, name, n)
	})
	return c
}

func (a *app) askSecret(ctx context.Context, name string) (string, error) {
	if a.IsTerminal(stdin) {
		return a.readHidden(ctx, "Value of %s (not shown): ", name)
	}
	value, err := a.readInput(ctx, maxSecret+2)
	if err != nil {
		return "", fmt.Errorf("read the value: %w", err)
	}
	if len(value) > maxSecret+1 {
		return "", errors.New("the value is longer than 32 KiB")
	}
	text := strings.TrimSuffix(string(value), "\n")
	return strings.TrimSuffix(text, "\r"), nil
}

func (a *app) setSecret(ctx context.Context, name string, n stint.NewSecret) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	kept, err := c.Secrets.Put(ctx, name, n)
	if err != nil {
		return err
	}
	if len(kept.Hosts) > 0 {
		return a.printResult(kept, "%s is stored. Only %s can receive it, and no agent can read it.", kept.Name, strings.Join(kept.Hosts, ", "))
	}
	return a.printResult(kept, "%s is stored. Agents that name it can read it; limit it to hosts with --hosts.", kept.Name)
}

func (a *app) secretList() *cobra.Command {
	list := func(ctx context.Context, c *client.Client) iter.Seq2[stint.Secret, error] { return c.Secrets.List(ctx) }
	return listCommand(a, "List the names of the stored secrets", "No secrets.", "NAME CREATED UPDATED HOSTS AGENTS", list, func(s stint.Secret) []string {
		return []string{s.Name, s.CreatedAt.String(), s.UpdatedAt.String(), orAny(s.Hosts), orAny(s.Agents)}
	})
}

// orAny returns the members of a limit. An empty list limits nothing.
func orAny(list []string) string {
	if len(list) == 0 {
		return "any"
	}
	return strings.Join(list, ",")
}

func (a *app) secretShow() *cobra.Command {
	return &cobra.Command{
		Use: "show NAME", Short: "Show a stored secret without its value", Args: exactly("NAME"),
		RunE: a.call(func(ctx context.Context, c *client.Client, args []string) error {
			s, err := c.Secrets.Get(ctx, args[0])
			if err != nil {
				return err
			}
			return a.printOne(s, "name", s.Name, "hosts", orAny(s.Hosts), "agents", orAny(s.Agents),
				"created", s.CreatedAt.String(), "updated", s.UpdatedAt.String())
		}),
	}
}

func (a *app) secretRemove() *cobra.Command {
	return a.each("rm NAME...", "Delete stored secrets", "removed", func(ctx context.Context, c *client.Client, secret string) (id, name string, err error) {
		return secret, secret, c.Secrets.Delete(ctx, secret)
	})
}
