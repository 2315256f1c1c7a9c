package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/client"
	"github.com/stint-dev/stint/examples"
	"github.com/stint-dev/stint/internal/config"
	"github.com/stint-dev/stint/internal/framework"
	"github.com/stint-dev/stint/internal/framework/catalog"
)

// modelExample is the path of the example definition of the assistant with a model.
const modelExample = "assistant/model.yaml"

func (a *app) demo() *cobra.Command {
	var model demoModel
	c := &cobra.Command{
		Use:   "demo",
		Short: "Show everything on a temporary server",
		Long: `Start a server in a temporary folder, log in, store an example agent and a
volume, run the agent in a sandbox, and print its output and its files. Then
the built-in assistant works on the same files. This needs nothing but the
program and leaves nothing behind.

Without a model the assistant works offline. With --model-url it uses a model.
The key is read from STINT_MODEL_KEY, ANTHROPIC_API_KEY, or OPENAI_API_KEY, or
from the terminal, and stays outside of the sandbox.`,
		Args: exactly(),
		RunE: func(c *cobra.Command, _ []string) (err error) {
			if err := model.complete(a, c); err != nil {
				return err
			}
			dir, err := os.MkdirTemp(a.getenv("TMPDIR"), "stint-demo-")
			if err != nil {
				return fmt.Errorf("create a temporary folder (set TMPDIR to another one): %w", err)
			}
			defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
			return (&demo{a: a, dir: dir, model: model}).run(c.Context())
		},
	}
	model.flags(c)
	return c
}

// demo is one execution of the demo. It executes the commands that a user would
// enter.
type demo struct {
	a      *app
	dir    string // temporary directory of all files of the demo
	model  demoModel
	step   int
	server ServerInfo
}

// run starts the server, executes the steps, and stops the server. Each step
// handles interrupts itself.
func (d *demo) run(ctx context.Context) error {
	serving, stop := context.WithCancel(ctx)
	defer stop()
	c := config.Default()
	c.Data, c.Listen, c.LogLevel = d.path("data"), "127.0.0.1:0", "error"
	c.Capacity, c.Drain = 4, 0
	var steps sync.WaitGroup
	var failed error
	began := d.a.Now()
	d.title("Start a server, in a temporary folder")
	err := d.a.Serve(serving, c, func(s ServerInfo) {
		d.server = s
		d.print("%s, ready after %d ms", s.URL, d.a.Now().Sub(began).Milliseconds())
		steps.Go(func() {
			defer stop()
			failed = d.steps(ctx)
		})
	})
	if d.server.URL == "" {
		return fmt.Errorf("the server did not start (run 'stint doctor' to check this machine): %w", err)
	}
	steps.Wait()
	return errors.Join(failed, err)
}

// demoStep is a command of the demo. If input is not empty, it is the path of an
// example file that is the standard input of the command.
type demoStep struct{ title, command, input string }

// list returns the steps after the start of the server.
func (d *demo) list() []demoStep {
	title, definition := "Let the built-in assistant look at the same files; offline, because no model is given", "assistant/stint.yaml"
	run := demoStep{"", "run offline-assistant - --artifact notes --pull notes", "assistant/prompt.txt"}
	if d.model.url != "" {
		title, definition = fmt.Sprintf("Let the built-in assistant ask %s about the same files", d.model.name), modelExample
		run = demoStep{"", "run assistant - --artifact notes --pull notes", "assistant/question.txt"}
	}
	if d.model.key != "" {
		run.command += " --secret " + demoKey
	}
	return []demoStep{
		{"Log in, through a socket that only you can open", "auth login", ""},
		{"Store files as a volume", "volume push library quickstart/library", ""},
		{"Store an agent", "agent push quickstart", ""},
		{"Run it in a sandbox, and follow it", "run quickstart - --var TITLE=Library --artifact report --pull report", "quickstart/prompt.sh"},
		{"Read its files", "artifact files report", ""},
		{"", "artifact cat report report.md", ""},
		{title, "agent push " + definition, ""},
		run,
		{"", "artifact files notes", ""},
	}
}

func (d *demo) steps(ctx context.Context) error {
	if err := os.CopyFS(d.path("examples"), examples.Demo); err != nil {
		return fmt.Errorf("write the examples: %w", err)
	}
	if d.model.url != "" {
		if err := d.model.configure(d.path("examples/" + modelExample)); err != nil {
			return err
		}
	}
	for _, s := range d.list() {
		if s.title != "" {
			d.title(s.title)
		}
		if err := d.execute(ctx, s); err != nil {
			return err
		}
	}
	if d.a.json {
		return d.printResult(ctx)
	}
	return d.finish(ctx)
}

func (d *demo) path(name string) string { return filepath.Join(d.dir, name) }

func (d *demo) title(text string) {
	if d.step++; !d.a.json {
		fmt.Fprintf(d.a.Stdout, "\n%s\n", d.a.colour(stdout, bold, fmt.Sprintf("%d. %s", d.step, text)))
	}
}

func (d *demo) print(format string, args ...any) {
	if !d.a.json {
		fmt.Fprintf(d.a.Stdout, "   "+format+"\n", args...)
	}
}

// env returns the environment of a command: the user's environment without variables
// of Stint, and with temporary directories for configuration, cache, and data, the
// address of the demo's server, and the model's key.
func (d *demo) env() Env {
	env := d.a.Env
	own := map[string]string{
		"XDG_CONFIG_HOME": d.path("config"), "XDG_CACHE_HOME": d.path("cache"),
		"STINT_DATA": d.path("data"), "STINT_URL": d.server.URL, demoKey: d.model.key,
	}
	env.Environ = func(name string) (string, bool) {
		if value, ok := own[name]; ok || strings.HasPrefix(name, "STINT_") {
			return value, ok
		}
		return d.a.Environ(name)
	}
	env.Dir, env.IsTerminal = d.path("examples"), func(int) bool { return false }
	return env
}

// execute prints and executes the command of a step.
func (d *demo) execute(ctx context.Context, s demoStep) error {
	inner := &app{Env: d.env()}
	inner.Args = strings.Fields(s.command)
	shown := "stint " + s.command
	if s.input != "" {
		text, err := os.ReadFile(inner.path(s.input))
		if err != nil {
			return fmt.Errorf("open the example: %w", err)
		}
		inner.Stdin, shown = bytes.NewReader(text), shown+" <"+s.input
	}
	d.print("$ %s", shown)
	out, messages := &demoOutput{d: d}, &demoOutput{d: d}
	inner.Stdout, inner.Stderr = out, messages
	err := inner.execute(ctx)
	out.flush()
	messages.flush()
	status, failed := errors.AsType[exitError](err)
	switch {
	case !failed:
		return err
	case status == exitCancelled:
		return errInterrupted
	}
	return fmt.Errorf("'%s' failed with exit code %d", shown, int(status))
}

// demoOutput prints the output of a command, indented and without control
// characters.
type demoOutput struct {
	d     *demo
	lines framework.Lines
}

func (o *demoOutput) Write(p []byte) (int, error) {
	o.lines.Write(p, o.print)
	return len(p), nil
}

func (o *demoOutput) flush() { o.lines.Flush(o.print) }

func (o *demoOutput) print(line []byte, _ bool) { o.d.print("  %s", plain(string(line))) }

// demoResult is the output of 'stint demo --json'.
type demoResult struct {
	URL             string            `json:"url"`
	Run             *stint.Run        `json:"run"`
	ArtifactVersion string            `json:"artifactVersion"`
	Files           []stint.FileEntry `json:"files"`
	Assistant       *stint.Run        `json:"assistant"`
}

func (d *demo) printResult(ctx context.Context) error {
	c, err := (&app{Env: d.env()}).client()
	if err != nil {
		return err
	}
	var runs []*stint.Run // the newest first
	for r, err := range c.Runs.List(ctx, client.RunFilter{}) {
		if err != nil {
			return err
		}
		run, err := c.Runs.Get(ctx, r.ID)
		if err != nil {
			return err
		}
		runs = append(runs, run)
	}
	out := demoResult{URL: d.server.URL, Run: runs[1], ArtifactVersion: deref(runs[1].ArtifactVersion), Assistant: runs[0]}
	artifact, err := c.Artifacts.Find(ctx, "report")
	if err != nil {
		return err
	}
	for f, err := range c.Artifacts.Files(ctx, artifact.ID, out.ArtifactVersion) {
		if err != nil {
			return err
		}
		out.Files = append(out.Files, f)
	}
	return d.a.printJSON(out)
}

const nextCommands = `   stint serve --detach         # a server that keeps what you store
   stint auth login
   stint init my-agent          # a definition to start from
   stint agent push my-agent
   stint run my-agent 'echo hello; date > now.txt' --artifact result --pull out
   stint demo --model-url ` + catalog.AnthropicURL + `   # the assistant with a model
`

// finish prints commands to try next. On a terminal it offers to keep the server
// running until the user interrupts it.
func (d *demo) finish(ctx context.Context) error {
	d.title("Try next")
	fmt.Fprint(d.a.Stdout, nextCommands)
	if !d.a.IsTerminal(stdin) || !d.a.IsTerminal(stdout) {
		return nil
	}
	return d.a.untilInterrupted(ctx, func(ctx context.Context) error {
		select {
		case yes := <-d.a.ask("Keep this server running to play with it? [y/N] "):
			if !yes {
				return nil
			}
		case <-ctx.Done():
			return nil
		}
		fmt.Fprintf(d.a.Stdout, "\nIt serves at %s until you press Ctrl-C. In another terminal:\n\n", d.server.URL)
		fmt.Fprintf(d.a.Stdout, "  export XDG_CONFIG_HOME=%s\n  stint runs list\n  stint artifact cat report report.md\n", quote(d.path("config")))
		<-ctx.Done()
		return nil
	})
}
