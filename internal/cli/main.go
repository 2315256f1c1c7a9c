package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/client"
	"github.com/stint-dev/stint/internal/cli/terminal"
	"github.com/stint-dev/stint/internal/config"
)

// Exit codes of the program.
const (
	exitDone      = 0
	exitFailed    = 1
	exitUsage     = 2
	exitTimeout   = 124
	exitCancelled = 130
)

// app is one invocation of the program.
type app struct {
	Env
	json    bool
	verbose bool
	url     string // --url
	context string // --context
	raw     bool   // --raw

	// screen and topScreen are standard error and standard output, for control sequences
	// of the program itself. display contains those that are terminals, for everything else.
	screen, topScreen io.Writer
	display           []*terminal.Writer
}

// Main runs the command in env.Args and returns the exit code. An interrupt
// cancels the context of the command, unless the command handles interrupts
// itself.
func Main(ctx context.Context, env Env) int {
	a := &app{Env: env, screen: env.Stderr, topScreen: env.Stdout}
	a.Stdout = a.protect(stdout, env.Stdout)
	a.Stderr = a.protect(stderr, env.Stderr)
	code := a.report(a.execute(ctx))
	a.flush()
	return code
}

// protect returns a writer to a terminal that removes control sequences, or the stream
// itself if it is not a terminal.
func (a *app) protect(fd int, stream io.Writer) io.Writer {
	if !a.IsTerminal(fd) {
		return stream
	}
	w := terminal.NewWriter(stream, &a.raw)
	a.display = append(a.display, w)
	return w
}

// flush ends incomplete sequences and colours on the terminal.
func (a *app) flush() {
	for _, w := range a.display {
		_ = w.Flush() // a terminal that is closed needs nothing
	}
}

func (a *app) execute(ctx context.Context) error {
	root := a.root()
	root.SetArgs(append([]string{}, a.Args...))
	root.SetIn(a.Stdin)
	root.SetOut(a.Stdout)
	root.SetErr(a.Stderr)
	a.complete(root)
	completeBash(root, a.Stdout)
	return root.ExecuteContext(ctx)
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "stint",
		Short: "Run agents as a service",
		Long: `Stint runs agents as a service: it stores their definitions and files, runs them
in sandboxes, streams their output, and stores the files that they create.

First steps:
  stint demo                 show everything on a temporary server
  stint serve --detach       start a server on this machine
  stint auth login           get a token from it
  stint init                 write a stint.yaml to start from
  stint agent push           store it as an agent
  stint run AGENT PROMPT     start a run and follow it

Wherever a command expects an ID, it accepts the first characters of the ID, with
or without its prefix (run_01k2h9), the name of an agent, volume, artifact, or
token, and @last: the newest run that you created, its session or checkpoint, or
the newest agent, volume, or artifact. The ID of a checkpoint must be complete; a
run stands for its checkpoint.

Exit codes: 0 done, 1 failed, 2 wrong usage, 124 the run exceeded its time or
idle limit, 130 cancelled.`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          a.noSubcommand,
		RunE:          func(c *cobra.Command, _ []string) error { return c.Help() },

		PersistentPreRunE: func(c *cobra.Command, _ []string) error { return checkFlags(c) },
	}
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok {
			err = cmp.Or(config.CheckFlag(unknown.GetSpecifiedName()), err)
		}
		if invalid, ok := errors.AsType[*pflag.InvalidValueError](err); ok && kinds[invalid.GetFlag().Value.Type()] != "" {
			return usage(c, "--%s: '%s' is not %s", invalid.GetFlag().Name, invalid.GetValue(), kinds[invalid.GetFlag().Value.Type()])
		}
		return usage(c, "%s", err)
	})
	flags := root.PersistentFlags()
	flags.BoolVar(&a.json, "json", false, "print JSON, one value per line")
	flags.BoolVarP(&a.verbose, "verbose", "v", false, "print more on standard error")
	flags.StringVar(&a.url, "url", "", "address of the server (also STINT_URL)")
	flags.StringVar(&a.context, "context", "", "use this stored login: a name in 'stint auth list' (also STINT_CONTEXT)")
	root.AddGroup(
		&cobra.Group{ID: "start", Title: "Start:"},
		&cobra.Group{ID: "work", Title: "Work:"},
		&cobra.Group{ID: "operate", Title: "Operate:"},
	)
	group(root, "start", a.demo(), a.serve(), a.auth(), a.init())
	group(root, "work", a.agent(), a.run(), a.resumeFrom("continue"), a.resumeFrom("resume"), a.runs(), a.logs(), a.top(), a.sessions(), a.checkpoints(), a.volumes(stint.Volumes), a.volumes(stint.Artifacts), a.secret(), a.usageOf(), a.mcp())
	group(root, "operate", a.token(), a.stop(), a.keys(), a.gc(), a.fsck(), a.doctor(), a.version())
	root.SetHelpCommand(a.help())
	root.SetHelpCommandGroupID("operate")
	addExamples(root)
	root.SetCompletionCommandGroupID("operate")
	return root
}

func (a *app) help() *cobra.Command {
	return &cobra.Command{
		Use: "help [COMMAND]", Short: "Show the help of a command",
		RunE: func(c *cobra.Command, args []string) error {
			found, rest, err := c.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return a.noSubcommand(found, rest)
			}
			return found.Help()
		},
		ValidArgsFunction: func(c *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
			var out []cobra.Completion
			if found, rest, err := c.Root().Find(args); err == nil && len(rest) == 0 {
				for _, child := range found.Commands() {
					if child.IsAvailableCommand() {
						out = append(out, cobra.CompletionWithDesc(child.Name(), child.Short))
					}
				}
			}
			return out, cobra.ShellCompDirectiveNoFileComp
		},
	}
}

func group(root *cobra.Command, id string, commands ...*cobra.Command) {
	for _, c := range commands {
		c.GroupID = id
		root.AddCommand(c)
	}
}

// parent returns a command that does nothing but contain subcommands.
func (a *app) parent(use, short string, children ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{Use: use, Short: short, Args: a.noSubcommand}
	c.RunE = func(c *cobra.Command, _ []string) error {
		return usage(c, "choose a command: %s", strings.Join(names(c), ", "))
	}
	c.AddCommand(children...)
	return c
}

func names(c *cobra.Command) []string {
	var out []string
	for _, child := range c.Commands() {
		if child.IsAvailableCommand() {
			out = append(out, child.Name())
		}
	}
	return out
}

// kinds describes the values of flags by their type.
var kinds = map[string]string{
	"int": "a whole number", "int64": "a whole number", "float64": "a number", "duration": "a duration such as 90s or 2h", "bool": "true or false",
}

// noSubcommand returns an error if there are arguments, because they do not name a
// subcommand. The error suggests similar subcommands.
func (a *app) noSubcommand(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	c.SuggestionsMinimumDistance = 2
	hint := ""
	if near := c.SuggestionsFor(args[0]); len(near) > 0 {
		hint = " Did you mean " + strings.Join(near, " or ") + "?"
	}
	return usage(c, "there is no command '%s %s'.%s", c.CommandPath(), args[0], hint)
}

// exactly returns a function that checks the number of arguments. words are the
// arguments in the usage line; words in brackets are optional.
func exactly(words ...string) cobra.PositionalArgs {
	least := 0
	for _, w := range words {
		if !strings.HasPrefix(w, "[") {
			least++
		}
	}
	return func(c *cobra.Command, args []string) error {
		if len(args) < least {
			return usage(c, "%s is missing", words[len(args)])
		}
		if len(args) > len(words) {
			return usage(c, "'%s' is one argument too many; quote text that has spaces", args[len(words)])
		}
		for i, arg := range args {
			word := strings.Trim(words[i], "[]")
			if arg == "" && word != "PROMPT" && word != "VALUE" { // these have errors of their own
				return usage(c, "%s is empty", word)
			}
		}
		return nil
	}
}

// checkFlags returns an error for a flag with an empty value, which is usually an unset
// variable of a script: --expires "$EXPIRES" must not mean the default. The settings of a
// server can be empty, and so can a message and the limits of a secret.
func checkFlags(c *cobra.Command) (err error) {
	c.Flags().Visit(func(f *pflag.Flag) {
		value := f.Value.String()
		if _, setting := f.Value.(*settingFlag); setting || value != "" && value != "[]" {
			return
		}
		if !slices.Contains([]string{"message", "hosts", "agents"}, f.Name) {
			err = usage(c, "--%s: the value is empty", f.Name)
		}
	})
	return err
}

// usageError reports invalid arguments or flags of a command.
type usageError struct {
	message string
	command string
}

func (e *usageError) Error() string { return e.message }

func usage(c *cobra.Command, format string, args ...any) error {
	return &usageError{fmt.Sprintf(format, args...), c.CommandPath()}
}

// exitError ends the program with an exit code and without a message, because the
// command has printed all messages.
type exitError int

func (e exitError) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

var errInterrupted = errors.New("interrupted")

// report prints an error and returns the exit code.
func (a *app) report(err error) int {
	if err == nil {
		return exitDone
	}
	if code, ok := errors.AsType[exitError](err); ok {
		return int(code)
	}
	if errors.Is(err, errInterrupted) {
		a.note("stint: interrupted")
		return exitCancelled
	}
	answer, fromServer := errors.AsType[*client.Error](err)
	if faulty, ok := errors.AsType[*faultyDefinition](err); ok && len(faulty.faults) > 1 {
		a.note("stint: several things are wrong:")
		for _, fault := range faulty.faults {
			a.note("  - %s", fault)
		}
	} else if fromServer && len(answer.Details) > 1 {
		a.note("stint: several things are wrong:")
		for _, d := range answer.Details {
			a.note("  - %s", d.Message)
		}
	} else {
		a.note("stint: %s", err)
	}
	if wrong, ok := errors.AsType[*usageError](err); ok {
		a.note("Try '%s --help'.", wrong.command)
		return exitUsage
	}
	if fromServer {
		a.explain(answer)
	}
	return exitFailed
}

// explain prints advice for an error of the server.
func (a *app) explain(e *client.Error) {
	switch e.Code {
	case stint.CodeInvalidAPIKey:
		a.note("Log in with 'stint auth login', or put a token into STINT_TOKEN.")
	case stint.CodeInsufficientScope:
		a.note("'stint auth status' shows what your token may do.")
	}
	if a.verbose && e.RequestID != "" {
		a.note("request %s", e.RequestID)
	}
}

// action is the function of a command. ctx ends when the user interrupts the command.
type action func(ctx context.Context, c *cobra.Command, args []string) error

// do converts an action to a function for cobra.
func (a *app) do(f action) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		return a.untilInterrupted(c.Context(), func(ctx context.Context) error { return f(ctx, c, args) })
	}
}

// untilInterrupted calls f with a context that ends when the user interrupts. If f
// then fails, the error is errInterrupted.
func (a *app) untilInterrupted(ctx context.Context, f func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	ended := make(chan struct{})
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case <-a.Interrupts:
			cancel(errInterrupted)
		case <-ended:
		}
	}()
	err := f(ctx)
	close(ended)
	<-watched
	if err != nil && errors.Is(context.Cause(ctx), errInterrupted) {
		err = errInterrupted
	}
	cancel(nil)
	return err
}

// atLeast returns a function that requires one argument or more. word is the name of
// the argument in the error.
func atLeast(word string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return usage(c, "%s is missing", word)
		}
		return nil
	}
}
