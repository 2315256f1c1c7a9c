package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/client"
)

func (a *app) secret() *cobra.Command {
	return a.parent("secret", "Manage the stored secrets of your organisation", a.secretSet(), a.secretList(), a.secretRemove())
}

// maxSecret is the maximum size of a secret's value, in bytes.
const maxSecret = 32 << 10

func (a *app) secretSet() *cobra.Command {
	return &cobra.Command{
		Use:   "set NAME [VALUE]",
		Short: "Store a secret, or replace it",
		Long: `Set stores a secret of your organisation. Every run of the organisation gets it as
the environment variable NAME, and definitions can refer to it as
${{ secrets.NAME }}. If a definition names hosts for the secret, or uses it as the
model's key or in a header of an MCP server, its agent gets a placeholder instead.

Without VALUE, the secret is read from the terminal, or from standard input without
its last line end:

  stint secret set API_KEY < key.txt

Other users of this machine can see a VALUE on the command line.`,
		Args: exactly("NAME", "[VALUE]"),
		RunE: a.do(func(ctx context.Context, c *cobra.Command, args []string) error {
			name, value, given := strings.Cut(args[0], "=")
			if len(args) == 2 {
				if given {
					return usage(c, "the value is given twice")
				}
				value, given = args[1], true
			}
			if !given {
				var err error
				if value, err = a.askSecret(name); err != nil {
					return err
				}
			}
			if value == "" {
				return usage(c, "the value of %s is empty", name)
			}
			return a.setSecret(ctx, name, value)
		}),
	}
}

func (a *app) askSecret(name string) (string, error) {
	if a.IsTerminal(stdin) {
		return a.readHidden("Value of %s (not shown): ", name)
	}
	value, err := io.ReadAll(io.LimitReader(a.Stdin, maxSecret+2))
	if err != nil {
		return "", fmt.Errorf("read the value: %w", err)
	}
	if len(value) > maxSecret+1 {
		return "", errors.New("the value is longer than 32 KiB")
	}
	text := strings.TrimSuffix(string(value), "\n")
	return strings.TrimSuffix(text, "\r"), nil
}

// readHidden prints a question and reads a line from the terminal without showing
// the line.
func (a *app) readHidden(question string, args ...any) (string, error) {
	fmt.Fprintf(a.Stderr, question, args...)
	line, err := a.ReadPassword()
	fmt.Fprintln(a.Stderr)
	if err != nil {
		return "", fmt.Errorf("read from the terminal: %w", err)
	}
	return string(line), nil
}

func (a *app) setSecret(ctx context.Context, name, value string) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	kept, err := c.Secrets.Put(ctx, name, value)
	if err != nil {
		return err
	}
	return a.printResult(kept, "%s is stored.", kept.Name)
}

func (a *app) secretList() *cobra.Command {
	list := func(ctx context.Context, c *client.Client) iter.Seq2[stint.Secret, error] { return c.Secrets.List(ctx) }
	return listCommand(a, "List the names of the stored secrets", "NAME CREATED UPDATED", list, func(s stint.Secret) []string {
		return []string{s.Name, s.CreatedAt.String(), s.UpdatedAt.String()}
	})
}

func (a *app) secretRemove() *cobra.Command {
	return a.each("rm NAME...", "Delete stored secrets", "removed", func(ctx context.Context, c *client.Client, name string) (string, error) {
		return name, c.Secrets.Delete(ctx, name)
	})
}
