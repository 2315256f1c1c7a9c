package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/client"
	"github.com/stint-dev/stint/examples"
	"github.com/stint-dev/stint/internal/config"
	"github.com/stint-dev/stint/internal/framework/catalog"
	"github.com/stint-dev/stint/internal/localdir"
)

// Time limits of the demo, without the time that its server is kept.
const (
	demoLimit      = 2 * time.Minute
	demoModelLimit = 10 * time.Minute
)

// maxShown is how many lines of a file the demo prints.
const maxShown = 12

func (a *app) demo() *cobra.Command {
	var model demoModel
	c := &cobra.Command{
		Use:   "demo",
		Short: "Show everything on a temporary server",
		Long: `Demo starts a server in a temporary folder, logs in, stores an example agent and
a volume, runs the agent in a sandbox, and prints its events and its files. Then the built-in assistant works on the same files. Demo needs nothing
but this program and leaves nothing behind.

Without a model the assistant works offline. With --model-url it uses a model.
The key is read from STINT_MODEL_KEY, ANTHROPIC_API_KEY, or OPENAI_API_KEY, or
from the terminal, and stays outside of the sandbox:

  stint demo --model-url https://api.anthropic.com
  stint demo --model-url http://127.0.0.1:11434/v1 --model qwen3`,
		Args: exactly(),
		RunE: a.do(func(ctx context.Context, c *cobra.Command, _ []string) (err error) {
			if err := model.complete(a, c); err != nil {
				return err
			}
			dir, err := os.MkdirTemp(a.getenv("TMPDIR"), "stint-demo-")
			if err != nil {
				return fmt.Errorf("create a temporary folder (set TMPDIR to another one): %w", err)
			}
			defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
			return (&demo{a: a, dir: dir, model: model}).run(ctx)
		}),
	}
	model.flags(c)
	return c
}

// demo is one execution of the demo.
type demo struct {
	a     *app
	dir   string // temporary; contains everything
	model demoModel
	step  int
	c     *client.Client
}

// demoResult is the output of demo --json.
type demoResult struct {
	URL             string            `json:"url"`
	Run             *stint.Run        `json:"run"`
	ArtifactVersion string            `json:"artifactVersion"`
	Files           []stint.FileEntry `json:"files"`
	Assistant       *stint.Run        `json:"assistant"`
}

// run starts the server, executes the steps, and stops the server.
func (d *demo) run(ctx context.Context) error {
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	ready, ended := make(chan ServerInfo, 1), make(chan error, 1)
	c := config.Default()
	c.Data, c.Listen, c.LogLevel = filepath.Join(d.dir, "data"), "127.0.0.1:0", "error"
	c.Capacity, c.Drain = 4, 0
	began := d.a.Now()
	d.title("Start a server, in a temporary folder")
	go func() { ended <- d.a.Serve(serving, c, func(s ServerInfo) { ready <- s }) }()
	var err error
	select {
	case s := <-ready:
		d.print("%s, ready after %s", s.URL, d.since(began))
		err = d.steps(ctx, s)
	case err = <-ended:
		return fmt.Errorf("the server did not start (run 'stint doctor' to check this machine): %w", err)
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	stop()
	return errors.Join(err, <-ended)
}

func (d *demo) steps(ctx context.Context, s ServerInfo) error {
	limit := demoLimit
	if d.model.url != "" {
		limit = demoModelLimit
	}
	limited, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("the demo took longer than %s", limit))
	defer cancel()
	if err := d.login(limited, s); err != nil {
		return err
	}
	if err := d.store(limited); err != nil {
		return err
	}
	run, files, err := d.quickstart(limited)
	if err != nil {
		return err
	}
	assistant, err := d.assistant(limited)
	if err != nil {
		return err
	}
	if d.a.json {
		return d.a.printJSON(demoResult{s.URL, run, *run.ArtifactVersion, files, assistant})
	}
	return d.finish(ctx, s)
}

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

// quote prints up to limit lines of a text.
func (d *demo) quote(mark, text string, limit int) {
	n := 0
	for line := range strings.Lines(strings.TrimSpace(text)) {
		if n++; n > limit {
			d.print("  %s …", mark)
			return
		}
		d.print("  %s %s", mark, plain(strings.TrimRight(line, "\n")))
	}
}

func (d *demo) since(t time.Time) string {
	return fmt.Sprintf("%d ms", d.a.Now().Sub(t).Milliseconds())
}

// login logs in with a configuration in the temporary folder, so that the user's
// own is not changed.
func (d *demo) login(ctx context.Context, s ServerInfo) error {
	d.title("Log in, through a socket that only you can open")
	made, err := loginAt(ctx, s.Socket, loginRequest{Name: "demo"}.complete(d.a.getenv))
	if err != nil {
		return err
	}
	outer := d.a.Environ
	own := map[string]string{"XDG_CONFIG_HOME": d.configHome(), "STINT_TOKEN": "", "STINT_URL": s.URL}
	d.a.Environ = func(name string) (string, bool) {
		if v, ok := own[name]; ok {
			return v, true
		}
		return outer(name)
	}
	path, err := d.a.writeCredentials(credentials{URL: s.URL, Token: made.Secret, TokenID: made.ID})
	if err != nil {
		return err
	}
	if d.c, err = d.a.client(); err != nil {
		return err
	}
	me, err := d.c.Me(ctx)
	if err != nil {
		return err
	}
	d.print("user %s of organisation %s, token %s… in %s", me.User.Name, me.Organization.Name, made.TokenPrefix, path)
	return nil
}

func (d *demo) configHome() string { return filepath.Join(d.dir, "config") }

// example returns an embedded file.
func example(name string) (string, error) {
	b, err := fs.ReadFile(examples.Demo, name)
	if err != nil {
		return "", fmt.Errorf("open the example: %w", err)
	}
	return string(b), nil
}

// storeExample stores an example's definition, with changes.
func (d *demo) storeExample(ctx context.Context, name string, change map[string]any) (*pushed, error) {
	source, err := example(name)
	if err != nil {
		return nil, err
	}
	definition, err := parseDefinition([]byte(source))
	if err != nil {
		return nil, err
	}
	maps.Copy(definition, change)
	return storeAgent(ctx, d.c, definition)
}

// store pushes the quickstart's volume and agent.
func (d *demo) store(ctx context.Context) error {
	d.title("Store files as a volume")
	library, err := fs.Sub(examples.Demo, "quickstart/library")
	if err != nil {
		return fmt.Errorf("open the example: %w", err)
	}
	archive, err := localdir.PackBytes(library)
	if err != nil {
		return err
	}
	volume, err := d.c.Volumes.Create(ctx, "library")
	if err != nil {
		return err
	}
	v, _, err := d.c.Volumes.Push(ctx, volume.ID, bytes.NewReader(archive), &client.PushOptions{Message: "Example texts"})
	if err != nil {
		return err
	}
	d.print("library@%s: %s, %s", v.ID, filesText(v.FileCount), bytesText(v.Size))
	d.title("Store an agent")
	agent, err := d.storeExample(ctx, "quickstart/stint.yaml", nil)
	if err == nil {
		d.print("%s (%s): framework shell, reads /data, no network", agent.Name, agent.ID)
	}
	return err
}

// quickstart runs the quickstart agent and prints its events and its report.
func (d *demo) quickstart(ctx context.Context) (*stint.Run, []stint.FileEntry, error) {
	d.title("Run it in a sandbox, and follow its events")
	prompt, err := example("quickstart/prompt.sh")
	if err != nil {
		return nil, nil, err
	}
	began := d.a.Now()
	n := stint.NewRun{Agent: "quickstart", Prompt: prompt, ArtifactName: "report", Variables: map[string]string{"TITLE": "What is in the library"}}
	run, err := d.runAgent(ctx, n, func(e stint.Event) error {
		d.print("%7s  %-8s %s", d.since(began), e.Type, e.Data)
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	if run.ArtifactVersion == nil {
		return nil, nil, errors.New("the run stored no files")
	}
	d.title("Read its files")
	d.print("report@%s", *run.ArtifactVersion)
	files, err := d.showFiles(ctx, run)
	return run, files, err
}

// runAgent starts a run, calls show for each event, and returns the completed
// run.
func (d *demo) runAgent(ctx context.Context, n stint.NewRun, show func(stint.Event) error) (*stint.Run, error) {
	run, err := d.c.Runs.Create(ctx, n, nil)
	if err != nil {
		return nil, err
	}
	d.print("%s", run.ID)
	for event, err := range d.c.Runs.Events(ctx, run.ID, 0) {
		if err == nil {
			err = show(event)
		}
		if err != nil {
			return nil, err
		}
	}
	if run, err = d.c.Runs.Get(ctx, run.ID); err != nil {
		return nil, err
	}
	if run.Status != stint.Completed {
		return nil, fmt.Errorf("the run of %s ended as %s: %s", n.Agent, run.Status, deref(run.Error))
	}
	return run, nil
}

// assistant runs the built-in assistant on the same files, with a model or
// offline.
func (d *demo) assistant(ctx context.Context) (*stint.Run, error) {
	source, task := "assistant/stint.yaml", "assistant/prompt.txt"
	if d.model.url == "" {
		d.title("Let the built-in assistant look at the same files; offline, because no model is given")
	} else {
		source, task = "assistant/model.yaml", "assistant/question.txt"
		d.title(fmt.Sprintf("Let the built-in assistant ask %s about the same files", d.model.name))
	}
	change := d.model.definition()
	prompt, err := example(task)
	if err == nil {
		change["instructions"], err = example("assistant/AGENTS.md")
	}
	if err != nil {
		return nil, err
	}
	agent, err := d.storeExample(ctx, source, change)
	if err != nil {
		return nil, err
	}
	d.quote(">", prompt, maxShown)
	n := stint.NewRun{Agent: agent.Name, Prompt: prompt, ArtifactName: "notes"}
	if d.model.key != "" {
		n.Secrets = map[string]string{demoKey: d.model.key}
	}
	out := &demoOutput{d: d}
	run, err := d.runAgent(ctx, n, out.event)
	if err != nil {
		return nil, err
	}
	if used := usageText(run.Usage); used != "" && d.model.url != "" {
		d.print("%s", used)
	}
	_, err = d.showFiles(ctx, run)
	return run, err
}

// demoOutput prints messages and tool calls of an agent line by line.
type demoOutput struct {
	d    *demo
	line string // incomplete
}

func (o *demoOutput) event(e stint.Event) error {
	if e.Type != stint.EventOutput {
		return nil
	}
	var data stint.OutputData
	if err := json.Unmarshal(e.Data, &data); err != nil {
		return fmt.Errorf("read output: %w", err)
	}
	if i := data.Item; i != nil && i.Kind != stint.ItemMessage && i.Kind != stint.ItemToolCall {
		return nil
	}
	text, rest, ended := strings.Cut(o.line+data.Content, "\n")
	for ; ended; text, rest, ended = strings.Cut(rest, "\n") {
		if strings.TrimSpace(text) != "" {
			o.d.print("  %s", plain(text))
		}
	}
	o.line = text
	return nil
}

// showFiles prints the files of a run's artifact, and the start of one of them:
// the last Markdown file, or else the first file.
func (d *demo) showFiles(ctx context.Context, run *stint.Run) (files []stint.FileEntry, err error) {
	if run.ArtifactVersion == nil {
		d.print("It left no file.")
		return nil, nil
	}
	artifact, err := d.c.Artifacts.Find(ctx, *run.ArtifactName)
	if err != nil {
		return nil, err
	}
	shown := ""
	for f, err := range d.c.Artifacts.Files(ctx, artifact.ID, *run.ArtifactVersion) {
		if err != nil {
			return nil, err
		}
		if files = append(files, f); f.Kind != "file" {
			continue
		}
		d.print("%9s  %s", bytesText(f.Size), plain(f.Path))
		if shown == "" || strings.HasSuffix(f.Path, ".md") {
			shown = f.Path
		}
	}
	if shown == "" {
		d.print("It left no file.")
		return files, nil
	}
	in, err := d.c.Artifacts.ReadFile(ctx, artifact.ID, *run.ArtifactVersion, shown)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	content, err := io.ReadAll(io.LimitReader(in, 64<<10))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", shown, err)
	}
	d.print("\n   %s:", plain(shown))
	d.quote("|", string(content), maxShown)
	return files, nil
}

// finish prints what to try next. On a terminal the user may keep the server.
func (d *demo) finish(ctx context.Context, s ServerInfo) error {
	d.title("Try next")
	d.print("stint serve                  # a server that keeps what you store")
	d.print("stint auth login             # in a second terminal")
	d.print("stint init my-agent          # a definition to start from")
	d.print("stint agent push my-agent")
	d.print("stint run my-agent 'echo hello; date > now.txt' --artifact result --pull out")
	if d.model.url == "" {
		d.print("stint demo --model-url %s   # the assistant with a model", catalog.AnthropicURL)
	}
	if !d.a.IsTerminal(stdin) || !d.a.IsTerminal(stdout) {
		return nil
	}
	select {
	case yes := <-d.a.ask("Keep this server running to play with it? [y/N] "):
		if !yes {
			return nil
		}
	case <-ctx.Done():
		return nil
	}
	fmt.Fprintf(d.a.Stdout, "\nIt serves at %s until you press Ctrl-C. In another terminal:\n\n", s.URL)
	fmt.Fprintf(d.a.Stdout, "  export XDG_CONFIG_HOME=%s\n  stint runs list\n  stint artifact cat report report.md\n", quote(d.configHome()))
	<-ctx.Done()
	return nil
}
