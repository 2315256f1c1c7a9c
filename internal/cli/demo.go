package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
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

// demoLimit bounds the demonstration, not the time that its server is kept; a
// model may think for longer.
const (
	demoLimit      = 2 * time.Minute
	demoModelLimit = 10 * time.Minute
)

func (a *app) demo() *cobra.Command {
	var model demoModel
	c := &cobra.Command{
		Use:   "demo",
		Short: "See all of it at work, on a server of its own",
		Long: `Demo starts a server in a temporary folder, logs in, stores an example agent and
a volume, runs the agent in a sandbox, streams what it does and downloads what it
made. Then the built-in assistant works on the same files. It needs nothing but
this program and leaves nothing behind.

Without a model the assistant works offline. With --model-url it asks one; the
key is taken from STINT_MODEL_KEY, ANTHROPIC_API_KEY or OPENAI_API_KEY, or asked
for on a terminal, and stays outside of the sandbox:

  stint demo --model-url https://api.anthropic.com
  stint demo --model-url http://127.0.0.1:11434/v1 --model qwen3`,
		Args: exactly(),
		RunE: a.do(func(ctx context.Context, c *cobra.Command, _ []string) (err error) {
			if err := model.complete(a, c); err != nil {
				return err
			}
			dir, err := os.MkdirTemp(a.getenv("TMPDIR"), "stint-demo-")
			if err != nil {
				return fmt.Errorf("make a temporary folder (set TMPDIR to another place): %w", err)
			}
			defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
			d := &demonstration{a: a, dir: dir, model: model}
			return d.run(ctx)
		}),
	}
	model.flags(c)
	return c
}

// demonstration is one walk through the main job.
type demonstration struct {
	a     *app
	dir   string // temporary; everything is below it
	model demoModel
	step  int
	c     *client.Client
}

// demoResult is what demo --json prints.
type demoResult struct {
	URL             string            `json:"url"`
	Run             *stint.Run        `json:"run"`
	ArtifactVersion string            `json:"artifactVersion"`
	Files           []stint.FileEntry `json:"files"`
	Assistant       *stint.Run        `json:"assistant"`
}

// run serves for as long as the walk takes.
func (d *demonstration) run(ctx context.Context) error {
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
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
		d.tell("%s, ready after %s", s.URL, d.since(began))
		err = d.walk(ctx, s)
		stop()
		return errors.Join(err, <-ended)
	case err = <-ended:
		stop()
		return fmt.Errorf("the server did not start ('stint doctor' tells what this machine lacks): %w", err)
	case <-ctx.Done():
		stop()
		return errors.Join(context.Cause(ctx), <-ended)
	}
}

func (d *demonstration) walk(ctx context.Context, s ServerInfo) error {
	limit := demoLimit
	if d.model.url != "" {
		limit = demoModelLimit
	}
	limited, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("the demonstration took longer than %s", limit))
	defer cancel()
	if err := d.login(limited, s); err != nil {
		return err
	}
	if err := d.store(limited); err != nil {
		return err
	}
	run, err := d.follow(limited)
	if err != nil {
		return err
	}
	files, err := d.fetch(limited, run)
	if err != nil {
		return err
	}
	assisted, err := d.assist(limited)
	if err != nil {
		return err
	}
	if d.a.json {
		return d.a.printJSON(demoResult{s.URL, run, *run.ArtifactVersion, files, assisted})
	}
	return d.farewell(ctx, s)
}

func (d *demonstration) title(text string) {
	if d.step++; !d.a.json {
		fmt.Fprintf(d.a.Stdout, "\n%s\n", d.a.colour(stdout, bold, fmt.Sprintf("%d. %s", d.step, text)))
	}
}

func (d *demonstration) tell(format string, args ...any) {
	if !d.a.json {
		fmt.Fprintf(d.a.Stdout, "   "+format+"\n", args...)
	}
}

func (d *demonstration) since(t time.Time) string {
	return fmt.Sprintf("%d ms", d.a.Now().Sub(t).Milliseconds())
}

// login writes a configuration of its own, so that the person's stays as it is.
func (d *demonstration) login(ctx context.Context, s ServerInfo) error {
	d.title("Log in, through a socket that only you can open")
	made, err := loginAt(ctx, s.Socket, loginRequest{Name: "demo"}.complete(d.a.getenv))
	if err != nil {
		return err
	}
	d.a.Environ = d.environ(s.URL)
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
	d.tell("user %s of organisation %s, token %s… in %s", me.User.Name, me.Organization.Name, made.TokenPrefix, path)
	return nil
}

// environ is the environment with the configuration below the temporary folder.
func (d *demonstration) environ(address string) func(string) (string, bool) {
	outer := d.a.Environ
	own := map[string]string{"XDG_CONFIG_HOME": d.configHome(), "XDG_CACHE_HOME": filepath.Join(d.dir, "cache"), "STINT_TOKEN": "", "STINT_URL": address}
	return func(name string) (string, bool) {
		if v, ok := own[name]; ok {
			return v, true
		}
		return outer(name)
	}
}

func (d *demonstration) configHome() string { return filepath.Join(d.dir, "config") }

// store pushes the example's volume and agent.
func (d *demonstration) store(ctx context.Context) error {
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
	d.tell("library@%s: %s, %s", v.ID, filesText(v.FileCount), bytesText(v.Size))

	d.title("Store an agent")
	source, err := fs.ReadFile(examples.Demo, "quickstart/stint.yaml")
	if err != nil {
		return fmt.Errorf("open the example: %w", err)
	}
	definition, err := parseDefinition(source)
	if err != nil {
		return err
	}
	agent, err := storeAgent(ctx, d.c, definition)
	if err != nil {
		return err
	}
	d.tell("%s (%s): framework shell, reads /data, no network", agent.Name, agent.ID)
	return nil
}

// follow starts the run and shows its stream.
func (d *demonstration) follow(ctx context.Context) (*stint.Run, error) {
	d.title("Run it in a sandbox, and follow its stream")
	prompt, err := fs.ReadFile(examples.Demo, "quickstart/prompt.sh")
	if err != nil {
		return nil, fmt.Errorf("open the example: %w", err)
	}
	began := d.a.Now()
	run, err := d.c.Runs.Create(ctx, stint.NewRun{
		Agent: "quickstart", Prompt: string(prompt), ArtifactName: "report",
		Variables: map[string]string{"TITLE": "What is in the library"},
	}, nil)
	if err != nil {
		return nil, err
	}
	d.tell("%s", run.ID)
	for event, err := range d.c.Runs.Events(ctx, run.ID, 0) {
		if err != nil {
			return nil, err
		}
		d.tell("%7s  %-8s %s", d.since(began), event.Type, event.Data)
	}
	if run, err = d.c.Runs.Get(ctx, run.ID); err != nil {
		return nil, err
	}
	if run.Status != stint.Completed || run.ArtifactVersion == nil {
		return nil, fmt.Errorf("the run ended as %s: %s", run.Status, deref(run.Error))
	}
	return run, nil
}

// fetch downloads what the run has kept.
func (d *demonstration) fetch(ctx context.Context, run *stint.Run) ([]stint.FileEntry, error) {
	d.title("Download what it made")
	artifact, err := d.c.Artifacts.Find(ctx, "report")
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(d.dir, "report")
	if _, err := d.a.fetch(ctx, d.c, stint.Artifacts, artifact.ID, *run.ArtifactVersion, dir, pullOptions{}); err != nil {
		return nil, err
	}
	d.tell("report@%s", *run.ArtifactVersion)
	var files []stint.FileEntry
	for f, err := range d.c.Artifacts.Files(ctx, artifact.ID, *run.ArtifactVersion) {
		if err != nil {
			return nil, err
		}
		if files = append(files, f); f.Kind == "file" {
			d.tell("%9s  %s", bytesText(f.Size), f.Path)
		}
	}
	report, err := os.ReadFile(filepath.Join(dir, "report.md"))
	if err != nil {
		return nil, fmt.Errorf("read the report: %w", err)
	}
	d.tell("\n   report.md:")
	for line := range strings.Lines(string(report)) {
		d.tell("  | %s", strings.TrimRight(line, "\n"))
	}
	return slices.Clip(files), nil
}

// farewell tells what to try next. A person at a terminal may keep the server.
func (d *demonstration) farewell(ctx context.Context, s ServerInfo) error {
	d.title("Try next")
	d.tell("stint serve                  # a server that keeps what you store")
	d.tell("stint auth login             # in a second terminal")
	d.tell("stint init my-agent          # a definition to start from")
	d.tell("stint agent push my-agent")
	d.tell("stint run my-agent 'echo hello; date > now.txt' --artifact result --pull out")
	if d.model.url == "" {
		d.tell("stint demo --model-url %s   # the assistant with a model", catalog.AnthropicURL)
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
