package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/client"
)

// contextLine is the JSON form of a context. It does not contain the token.
type contextLine struct {
	Name    string `json:"name"`
	Current bool   `json:"current"`
	URL     string `json:"url"`
	Org     string `json:"organization"`
	User    string `json:"user"`
	TokenID string `json:"tokenId"`
}

func (a *app) authList() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the contexts: the stored logins", Args: exactly(), Aliases: []string{"ls"},
		RunE: a.do(func(context.Context, *cobra.Command, []string) error { return a.listContexts() }),
	}
}

func (a *app) listContexts() error {
	stored, err := a.readContexts()
	if err != nil {
		return err
	}
	current := a.selected(stored)
	var lines []contextLine
	for _, name := range stored.names() {
		login := stored.Logins[name]
		lines = append(lines, contextLine{name, name == current, login.URL, login.Org, login.User, login.TokenID})
	}
	return printList(a, withoutErrors(lines), 0, "You are not logged in.", "CURRENT NAME SERVER ORGANISATION USER TOKEN", func(l contextLine) []string {
		mark := ""
		if l.Current {
			mark = "*"
		}
		return []string{mark, l.Name, l.URL, l.Org, l.User, l.TokenID}
	})
}

func (a *app) authSwitch() *cobra.Command {
	return &cobra.Command{
		Use:   "switch [CONTEXT]",
		Short: "Choose the login that commands use",
		Long: `Make a stored login the current one. Without CONTEXT, the contexts are listed.
--context and STINT_CONTEXT choose a context for single commands.`,
		Args: exactly("[CONTEXT]"),
		RunE: a.do(func(_ context.Context, _ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return a.listContexts()
			}
			return a.switchTo(args[0])
		}),
	}
}

func (a *app) switchTo(name string) error {
	stored, err := a.readContexts()
	if err != nil {
		return err
	}
	login, err := stored.find(name)
	if err != nil {
		return err
	}
	stored.Current = name
	if _, err := a.writeContexts(stored); err != nil {
		return err
	}
	a.notePrecedence()
	line := contextLine{name, true, login.URL, login.Org, login.User, login.TokenID}
	return a.printResult(line, "The current context is %s: %s, organisation %s.", name, login.URL, login.Org)
}

// notePrecedence prints a message for each environment variable that takes precedence over
// the current context.
func (a *app) notePrecedence() {
	for _, variable := range []string{"STINT_TOKEN", "STINT_CONTEXT"} {
		if a.getenv(variable) != "" {
			a.note("%s is set and takes precedence: unset it to use the stored token.", variable)
		}
	}
}

func (a *app) authLogout() *cobra.Command {
	return &cobra.Command{
		Use: "logout [CONTEXT]", Short: "Revoke the token and forget it", Args: exactly("[CONTEXT]"),
		Long: `Revoke the token of a context, by default the current one, and forget it.
If one other context is left, it becomes the current one.`,
		RunE: a.do(func(ctx context.Context, _ *cobra.Command, args []string) error {
			stored, err := a.readContexts()
			if err != nil {
				return err
			}
			name := a.selected(stored)
			if len(args) == 1 {
				name = args[0]
			}
			if name == "" {
				a.note("You are not logged in.")
				return nil
			}
			return a.logout(ctx, stored, name)
		}),
	}
}

func (a *app) logout(ctx context.Context, stored *contexts, name string) error {
	login, err := stored.find(name)
	if err != nil {
		return err
	}
	err = a.revoke(ctx, login)
	before := stored.Current
	stored.remove(name)
	if _, writeErr := a.writeContexts(stored); writeErr != nil {
		return errors.Join(err, writeErr)
	}
	if stored.Current != "" && stored.Current != before {
		a.note("The current context is now %s.", stored.Current)
	}
	if err != nil {
		return fmt.Errorf("the token was forgotten here but could not be revoked; end %s with 'stint token revoke': %w", login.TokenID, err)
	}
	return a.printResult(map[string]any{"id": login.TokenID, "name": name, "revoked": true}, "Logged out of %s; the token was revoked.", login.URL)
}

// revoke revokes the token of a login. It returns nil if the token has expired or was
// revoked already.
func (a *app) revoke(ctx context.Context, login credentials) error {
	c, err := a.clientFor(login.URL, login.Token, 3)
	if err == nil {
		err = c.Tokens.Revoke(ctx, login.TokenID)
	}
	if client.IsCode(err, stint.CodeInvalidAPIKey) || client.IsCode(err, stint.CodeResourceNotFound) {
		return nil
	}
	return err
}

// keep stores a login as the current context with the given name. The token of the login
// that it replaces remains valid, because another program may use it; keep prints how to
// revoke it.
func (a *app) keep(name string, login credentials) error {
	stored, err := a.readContexts()
	if err != nil {
		return err
	}
	replaced := stored.Logins[name]
	stored.Current, stored.Logins[name] = name, login
	path, err := a.writeContexts(stored)
	if err != nil {
		return err
	}
	a.note("The token is stored in %s.", path)
	if replaced.TokenID != "" && replaced.TokenID != login.TokenID {
		a.note("The previous token of the context %s remains valid. To revoke it: stint token revoke %s", name, replaced.TokenID)
	}
	return nil
}
