package cli

import (
	"context"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/stint-dev/stint/internal/config"
)

func readFile(path string) ([]byte, error) { return os.ReadFile(path) }

func (a *app) serve() *cobra.Command {
	var detach bool
	c := &cobra.Command{
		Use:   "serve",
		Short: "Start a server: the API and a worker",
		Long: `Start a server with the API and a worker that runs agents on this machine.

Each flag can also be set by an environment variable (STINT_ and the flag's
name in capitals, such as STINT_LOG_LEVEL) or by a key of the configuration
file. Flags take precedence over the environment, and the environment over the
file. Other variables that begin with STINT_ have no effect, and serve warns
about them.

After the first Ctrl-C the server starts no more runs and waits for the active
runs, at most for the time of --drain. The second Ctrl-C ends the server at once.

With --detach the server runs in the background and writes its log to the file
` + logName + ` in the data folder. The command returns when the server is ready.
'stint stop' stops the server.`,
		Args: exactly(),
	}
	for _, s := range config.Settings() {
		text := s.Text
		if s.Default != "none" {
			text += " (default " + strings.TrimSuffix(strings.Replace(s.Default, " (", ": ", 1), ")") + ")"
		}
		c.Flags().Var(&settingFlag{kind: s.Value}, s.Name, text)
	}
	c.Flags().BoolVarP(&detach, "detach", "d", false, "start the server in the background and return when it is ready")
	c.RunE = func(c *cobra.Command, _ []string) error {
		flags := map[string]string{}
		c.Flags().Visit(func(f *pflag.Flag) {
			if v, ok := f.Value.(*settingFlag); ok {
				flags[f.Name] = v.text
			}
		})
		cfg, err := a.config(flags)
		if err != nil {
			return err
		}
		for _, warning := range config.UnknownVariables(a.Variables()) {
			a.note("stint: warning: %s", warning)
		}
		if detach {
			return a.untilInterrupted(c.Context(), func(ctx context.Context) error { return a.serveDetached(ctx, cfg, flags) })
		}
		return a.serveUntilInterrupted(c.Context(), cfg)
	}
	return c
}

// settingFlag accepts any text; package config validates it.
type settingFlag struct{ kind, text string }

func (f *settingFlag) String() string     { return f.text }
func (f *settingFlag) Type() string       { return f.kind }
func (f *settingFlag) Set(s string) error { f.text = s; return nil }

// serveUntilInterrupted runs a server. After the first interrupt, the server waits
// for its runs, at most for the duration c.Drain, and stops. The second interrupt
// exits at once. The next start of the server cleans up the runs that were active
// at a second interrupt.
func (a *app) serveUntilInterrupted(ctx context.Context, c config.Config) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- a.Serve(ctx, c, func(s ServerInfo) { a.announce(c, s) }) }()
	for interrupts := 0; ; {
		select {
		case err := <-ended:
			return err
		case <-a.Interrupts:
			if interrupts++; interrupts > 1 {
				return exitError(exitCancelled)
			}
			a.note("Stopping: active runs may continue for %s. Press Ctrl-C again to exit at once.", c.Drain)
			cancel()
		}
	}
}

func (a *app) announce(c config.Config, s ServerInfo) {
	if a.json {
		_ = a.printJSON(s) // ignore a closed standard output
		return
	}
	a.note("%s %s", a.colour(stderr, bold, "Stint serves at"), a.colour(stderr, green, s.URL))
	a.note("Data is kept in %s. Log in on this machine with: %s", s.DataDir, a.withData("stint auth login", c))
}

// withData adds the flag --data to a command unless the data folder is the default.
func (a *app) withData(command string, c config.Config) string {
	if standard, err := config.DefaultData(a.Environ); err == nil && standard == c.Data {
		return command
	}
	return command + " --data " + quote(c.Data)
}

// quote returns a word for a shell command, in single quotes if necessary.
func quote(s string) string {
	safe := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:=@,+%", r)
	}
	if s != "" && strings.IndexFunc(s, func(r rune) bool { return !safe(r) }) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
