package cli

import (
	"context"
	"iter"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/client"
)

func (a *app) token() *cobra.Command {
	return a.parent("token", "Manage the tokens of your organisation", a.tokenCreate(), a.tokenList(), a.tokenRevoke())
}

func (a *app) tokenCreate() *cobra.Command {
	var n stint.NewToken
	var expires string
	c := &cobra.Command{
		Use:   "create NAME",
		Short: "Create a token and print it, once",
		Long: `Create a token for a program or another machine, and print only the token
on standard output. The token is shown only once, because the server stores only
its hash. Use it as STINT_TOKEN.`,
		Args: exactly("[NAME]"),
	}
	c.Flags().StringVar(&n.Name, "name", "", "name of the token, instead of the argument")
	c.Flags().StringVar(&expires, "expires", "", "lifetime of the token, from 1m to 365d, such as 12h or 30d (default 90d)")
	c.Flags().StringSliceVar(&n.Scopes, "scope", nil, "scopes of the token: "+strings.Join(stint.Scopes, ", ")+" (default: all of yours)")
	c.RunE = a.do(func(ctx context.Context, c *cobra.Command, args []string) error {
		if len(args) == 1 {
			n.Name = args[0]
		}
		if n.Name == "" {
			return usage(c, "NAME is missing")
		}
		for _, scope := range n.Scopes {
			if !slices.Contains(stint.Scopes, scope) {
				return usage(c, "--scope: '%s' is not one of %s", scope, strings.Join(stint.Scopes, ", "))
			}
		}
		var err error
		if n.ExpiresAt, err = expiry(expires, a.Now()); err != nil {
			return usage(c, "--expires: %s", err)
		}
		return a.createToken(ctx, n)
	})
	return c
}

func (a *app) createToken(ctx context.Context, n stint.NewToken) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	made, err := c.Tokens.Create(ctx, n)
	if err != nil {
		return err
	}
	if !a.json {
		a.note("Token %s (%s), may %s, until %s. It is shown only once:", made.Name, made.ID, strings.Join(made.Scopes, ", "), made.ExpiresAt)
	}
	return a.printLine(made, "%s", made.Secret)
}

func (a *app) tokenList() *cobra.Command {
	list := func(ctx context.Context, c *client.Client) iter.Seq2[stint.Token, error] { return c.Tokens.List(ctx) }
	return listCommand(a, "List the tokens", "No tokens.", "ID NAME SCOPES EXPIRES LAST-USED", list, func(t stint.Token) []string {
		return []string{t.ID, t.Name, strings.Join(t.Scopes, ","), t.ExpiresAt.String(), text(t.LastUsedAt)}
	})
}

func (a *app) tokenRevoke() *cobra.Command {
	return a.each("revoke TOKEN...", "Revoke tokens immediately", "revoked", func(ctx context.Context, c *client.Client, ref string) (id, name string, err error) {
		if id, err = resolveToken(ctx, c, ref); err != nil {
			return "", "", err
		}
		if name = ref; strings.HasPrefix(ref, stint.PrefixToken) {
			name = id
		}
		return id, name, c.Tokens.Revoke(ctx, id)
	})
}
