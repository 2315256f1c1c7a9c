package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/stint-dev/stint"
	api "github.com/stint-dev/stint/client"
	"github.com/stint-dev/stint/internal/app"
	"github.com/stint-dev/stint/internal/framework"
	"github.com/stint-dev/stint/internal/framework/catalog"
	"github.com/stint-dev/stint/internal/framework/registry"
	"github.com/stint-dev/stint/internal/worker/agentcli"
)

// agentShare is what a run of an agent may cost beyond the agent's own time, in
// milliseconds.
const agentShare = 50

// benchAgents measures what runs of agents that are installed cost beyond the
// agents' own time: each run in turn with the same program, started the same
// way outside of any sandbox, with the same model.
func (l *lab) benchAgents(ctx context.Context) error {
	installed, err := app.Programs(ctx)
	if err != nil {
		return err
	}
	m, err := startModel()
	if err != nil {
		return err
	}
	defer m.close()
	return l.withServer(ctx, func(s *service) error {
		c, err := api.New(api.Options{URL: "http://" + s.address, Token: s.token})
		if err != nil {
			return err
		}
		for _, program := range installed {
			if program.Name != "claude-code" && program.Name != "codex" {
				continue
			}
			if err := l.agentShare(ctx, c, program, m); err != nil {
				return fmt.Errorf("%s: %w", program.Name, err)
			}
		}
		return nil
	})
}

func (l *lab) agentShare(ctx context.Context, c *api.Client, program agentcli.Installed, m *model) error {
	row := Row{What: program.Name + ": a run from POST to its end, less its program's own time"}
	if !program.Available {
		row.Note = "not available here: " + oneLine(program.Reason)
		l.add(row)
		return nil
	}
	raw, err := json.Marshal(map[string]any{
		"name": program.Name, "framework": program.Name, "model": "bench", "provider": map[string]any{"baseUrl": m.url(program.Name, stint.HostAlias)},
		"network": map[string]any{"mode": "restricted", "allow": []string{m.host(stint.HostAlias)}},
	})
	if err != nil {
		return err
	}
	if _, err := c.Agents.Create(ctx, raw); err != nil {
		return err
	}
	var share, alone, outside []time.Duration
	for i := range max(l.a.Samples/25, 2) + 1 {
		t, err := l.pair(ctx, c, program, m, i%2 == 0)
		if err != nil {
			return err
		}
		if i > 0 { // the first fills the caches
			// What differs between two starts of a program can be more than our share.
			share, alone, outside = append(share, max(t.whole-t.alone, time.Microsecond)), append(alone, t.alone), append(outside, t.whole-t.command)
		}
	}
	row.Measured = latency(SampleOf(share))
	row.Goals = []Goal{atMost("p50", row.Measured.P50Ms, agentShare, "ms")}
	row.Note = fmt.Sprintf("%s ms of a run lie outside of its command: the creation, the sandbox, storing its files.", number(milliseconds(SampleOf(outside).Median())))
	own := latency(SampleOf(alone))
	l.add(row.compare("the same program alone, with the same model", own, row.Measured.P50Ms, own.P50Ms))
	return nil
}

// pair is what one run took, its command within, and the program alone.
type pair struct{ whole, command, alone time.Duration }

// pair measures both ways, one of them first.
func (l *lab) pair(ctx context.Context, c *api.Client, program agentcli.Installed, m *model, aloneFirst bool) (p pair, err error) {
	steps := []func() error{
		func() (err error) { p.alone, err = l.alone(ctx, program, m); return err },
		func() (err error) { p.whole, p.command, err = agentRun(ctx, c, program.Name); return err },
	}
	if !aloneFirst {
		slices.Reverse(steps)
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return p, err
		}
	}
	return p, nil
}

// agentRun works a run; command is how long its command took.
func agentRun(ctx context.Context, c *api.Client, agent string) (whole, command time.Duration, err error) {
	start := time.Now()
	r, err := c.Runs.Create(ctx, stint.NewRun{Agent: agent, Prompt: "Say something."}, nil)
	if err == nil {
		r, err = c.Runs.Wait(ctx, r.ID)
	}
	if err != nil {
		return 0, 0, err
	}
	whole = time.Since(start)
	if r.Status != stint.Completed {
		return 0, 0, fmt.Errorf("a run ended %s: %s", r.Status, *r.Error)
	}
	for e, err := range c.Runs.Logs(ctx, r.ID, api.LogFilter{Type: stint.LogSystem}) {
		if err != nil {
			return 0, 0, err
		}
		if ms, ok := e.Metadata["durationMs"].(float64); ok && e.Metadata["cause"] != nil {
			return whole, time.Duration(ms * float64(time.Millisecond)), nil
		}
	}
	return 0, 0, fmt.Errorf("the log of %s does not tell how long its command took", r.ID)
}

// alone is how long the program takes on this machine, started as the service
// starts it but in no sandbox.
func (l *lab) alone(ctx context.Context, program agentcli.Installed, m *model) (took time.Duration, err error) {
	d := &stint.Definition{Framework: program.Name, Model: "bench", Provider: &stint.Provider{BaseURL: m.url(program.Name, "127.0.0.1")}}
	f, err := registry.Find(d)
	if err != nil {
		return 0, err
	}
	dir, err := l.folder()
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	in := framework.Input{
		Definition: d, Prompt: "Say something.", Program: framework.Program{Path: program.Path}, NewID: uuid.NewString(),
		Home: filepath.Join(dir, "home"), WorkDir: filepath.Join(dir, "work"), RunDir: filepath.Join(dir, "run"),
		Model: &framework.Endpoint{Type: catalog.ProviderType(d), URL: catalog.ModelURL(d), Key: "none"},
	}
	temporary := filepath.Join(dir, "tmp")
	for _, folder := range []string{in.Home, in.WorkDir, in.RunDir, temporary} {
		if err := os.Mkdir(folder, 0o755); err != nil {
			return 0, err
		}
	}
	plan, err := f.Prepare(in)
	if err != nil {
		return 0, err
	}
	for _, file := range plan.Files {
		if err := errors.Join(os.MkdirAll(filepath.Dir(file.Path), 0o755), os.WriteFile(file.Path, file.Content, 0o644)); err != nil {
			return 0, err
		}
	}
	env := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + in.Home, "TMPDIR=" + temporary, "LANG=C.UTF-8", "TERM=dumb"}
	for name, value := range plan.Env {
		env = append(env, name+"="+value)
	}
	cmd := exec.CommandContext(ctx, plan.Argv[0], plan.Argv[1:]...)
	cmd.Dir, cmd.Env = in.WorkDir, env
	return converse(cmd, plan, f.NewDecoder(in))
}

// converse runs a program and does what its decoder says.
func converse(cmd *exec.Cmd, plan framework.Plan, d framework.Decoder) (time.Duration, error) {
	cmd.WaitDelay = patience
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return 0, err
	}
	h := &hearing{d: d, stdin: stdin}
	cmd.Stdout, cmd.Stderr = heard{h, framework.Stdout}, heard{h, framework.Stderr}
	start := time.Now()
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	_, _ = stdin.Write(plan.Stdin) // one that ends at once does not read it
	if !plan.KeepStdinOpen {
		stdin.Close()
	}
	_ = cmd.Wait() // the decoder judges
	took := time.Since(start)
	h.mu.Lock()
	defer h.mu.Unlock()
	if v := d.Verdict(cmd.ProcessState.ExitCode()); !v.Completed {
		return 0, errors.New(strings.TrimSpace(v.Message + " " + h.last))
	}
	return took, nil
}

// hearing is what a decoder makes of both streams.
type hearing struct {
	stdin io.WriteCloser
	mu    sync.Mutex // guards what follows
	d     framework.Decoder
	last  string // that came on standard error
}

type heard struct {
	*hearing
	stream string
}

func (h heard) Write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.stream == framework.Stderr {
		h.last = string(p)
	}
	s := h.d.Write(h.stream, p)
	if len(s.Send) > 0 {
		_, _ = h.stdin.Write(s.Send)
	}
	if s.CloseStdin {
		h.stdin.Close()
	}
	return len(p), nil
}
