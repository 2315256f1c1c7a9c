package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stint-dev/stint/client"
	"github.com/stint-dev/stint/internal/config"
)

func (a *app) auth() *cobra.Command {
	return a.parent("auth", "Log in and out of a server", a.authLogin(), a.authToken(), a.authStatus(), a.authList(), a.authSwitch(), a.authLogout())
}

func (a *app) authLogin() *cobra.Command {
	var data, expires string
	var in loginRequest
	c := &cobra.Command{
		Use:   "login",
		Short: "Get a token from the server on this machine and store it",
		Long: `Get a token from a server and store it in the local configuration, which
only you can read.

On the server's own machine this works through a socket in the server's data
folder, which only the folder's owner can open; no password is needed. From
another machine use a token: create it there with 'stint auth login' and then
'stint token create NAME', put it into STINT_TOKEN here, and the server's address
into STINT_URL.

The login becomes the current context. Its name, by default the server's host and
the organisation, distinguishes several logins: 'stint auth switch' chooses one,
and --context uses one for a single command. A login with the name of an existing
context replaces that one; its token remains valid until it is revoked.`,
		Args: exactly(),
	}
	flags := c.Flags()
	flags.StringVar(&data, "data", "", "data folder of the server (also STINT_DATA; same default as stint serve)")
	flags.StringVar(&in.Org, "org", "", "organisation; created if it does not exist (default \"default\")")
	flags.StringVar(&in.Name, "name", "", "name of the token in lists (default \"login\")")
	flags.StringVar(&expires, "expires", "", "lifetime of the token, from 1m to 365d, such as 12h or 30d (default 90d)")
	c.RunE = a.do(func(ctx context.Context, c *cobra.Command, _ []string) (err error) {
		if in.ExpiresAt, err = expiry(expires, a.Now()); err != nil {
			return usage(c, "--expires: %s", err)
		}
		if a.context != "" && !validContext.MatchString(a.context) {
			return usage(c, "--context: '%s' is not a name of letters, digits, and . _ : / @ -", a.context)
		}
		return a.login(ctx, data, in.complete(a.getenv))
	})
	return c
}

// login gets a token through the socket of the server on this machine, tests the
// token, and stores it.
func (a *app) login(ctx context.Context, data string, in loginRequest) error {
	wanted := strings.TrimRight(cmp.Or(a.url, a.getenv("STINT_URL")), "/")
	cfg, err := a.serverConfig(data)
	if err != nil {
		return err
	}
	if _, err := a.readContexts(); err != nil {
		return err
	}
	socket := cfg.Socket()
	login := loginAt
	if wanted == "" || isLocal(wanted) {
		login = a.loginSoon
	}
	made, err := login(ctx, socket, in)
	if errors.Is(err, errNoSocket) {
		return a.noServer(wanted, socket)
	}
	if err != nil {
		return err
	}
	who, err := a.keepLogin(ctx, wanted, made)
	if err != nil {
		return errors.Join(err, revokeAt(ctx, socket, made))
	}
	a.notePrecedence()
	return a.printOne(who, who.fields(cmp.Or(wanted, made.URL))...)
}

// keepLogin tests a new token at the wanted server, by default the server on this
// machine, and stores it.
func (a *app) keepLogin(ctx context.Context, wanted string, made loginAnswer) (*identity, error) {
	if wanted != "" && wanted != made.URL && (!isLocal(wanted) || !isLocal(made.URL)) {
		return nil, fmt.Errorf("the server of this machine is %s, not %s: omit --url to log in to it", made.URL, wanted)
	}
	wanted = cmp.Or(wanted, made.URL)
	server, err := a.clientFor(wanted, made.Secret, 3)
	if err != nil {
		return nil, err
	}
	me, err := server.Me(ctx)
	if err != nil {
		return nil, fmt.Errorf("the new token does not work at %s: %w", wanted, err)
	}
	login := credentials{URL: wanted, Token: made.Secret, TokenID: made.ID, Org: me.Organization.Name, User: me.User.Name}
	name := cmp.Or(a.context, login.contextName())
	if err := a.keep(name, login); err != nil {
		return nil, err
	}
	return &identity{me, name}, nil
}

func (a *app) noServer(wanted, socket string) error {
	if wanted != "" && !isLocal(wanted) {
		return fmt.Errorf("%s is not on this machine, and its server does not support remote login: on the server's machine log in with 'stint auth login' and create a token with 'stint token create NAME', then put it into STINT_TOKEN here, and the address into STINT_URL", wanted)
	}
	return fmt.Errorf("no server of this machine answers at %s: start one with 'stint serve', or name its data folder with --data", socket)
}

// identity describes the token in use, and the context that contains it.
type identity struct {
	*client.Me
	Context string `json:"context,omitempty"` // empty for a token in STINT_TOKEN
}

func (me *identity) fields(address string) []string {
	return []string{
		"context", me.Context,
		"server", address,
		"organisation", me.Organization.Name,
		"user", me.User.Name,
		"token", strings.TrimSpace(me.Token.Name + " (" + me.Token.ID + ")"),
		"scopes", strings.Join(me.Token.Scopes, ", "),
		"expires", me.Token.ExpiresAt.String(),
	}
}

func (a *app) authToken() *cobra.Command {
	return &cobra.Command{
		Use: "token", Short: "Print only the token", Args: exactly(),
		RunE: a.do(func(context.Context, *cobra.Command, []string) error {
			server, err := a.account()
			if err != nil {
				return err
			}
			if server.Token == "" {
				return fmt.Errorf("you are not logged in to %s: run 'stint auth login'", server.URL)
			}
			return a.printLine(map[string]string{"token": server.Token, "url": server.URL}, "%s", server.Token)
		}),
	}
}

func (a *app) authStatus() *cobra.Command {
	return &cobra.Command{
		Use: "status", Short: "Show the server, user, and token in use, and the other contexts", Args: exactly(),
		RunE: a.call(func(ctx context.Context, c *client.Client, _ []string) error {
			server, err := a.account()
			if err != nil {
				return err
			}
			me, err := c.Me(ctx)
			if err != nil {
				return err
			}
			who := &identity{me, server.context}
			if err := a.printOne(who, who.fields(c.URL())...); err != nil || a.json {
				return err
			}
			stored, err := a.readContexts()
			if err != nil || len(stored.Logins) < 2 {
				return err
			}
			fmt.Fprintln(a.Stdout)
			return a.listContexts()
		}),
	}
}

// config loads the server's configuration as 'stint serve' does.
func (a *app) config(flags map[string]string) (config.Config, error) {
	return config.Load(config.Sources{Flags: flags, Environ: a.Environ, ReadFile: readFile, Dir: a.Dir})
}
