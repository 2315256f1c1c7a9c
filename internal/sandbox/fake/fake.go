// Package fake answers: how is code above a sandbox tested without one?
//
// It is a sandbox.Driver whose commands are Go functions of the test: nothing
// is started, nothing is isolated, everything happens at once. It keeps the
// port's promises about order, output, kill and idempotence.
package fake

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/stint-dev/stint/internal/sandbox"
)

// Script plays the command. It returns soon after ctx ends, which is the
// SIGKILL; Proc.Term is the SIGTERM before it. An Exit without a Cause means
// sandbox.Exited.
type Script func(ctx context.Context, p *Proc) sandbox.Exit

// Proc is what a script sees of its sandbox.
type Proc struct {
	Spec    sandbox.Spec // Home and Workspace are the folders on the host
	Command sandbox.Command
	Stdin   io.Reader // never nil
	Stdout  io.Writer // never nil
	Stderr  io.Writer // never nil
	// Term is closed when Kill asks the command to end; ctx ends when the
	// grace is over.
	Term <-chan struct{}

	instance *instance
}

// Host tells where a path inside the sandbox lies on the host. It fails for
// paths that no folder of the spec covers.
func (p *Proc) Host(inside string) (string, error) {
	inside = path.Clean(inside)
	best, source := "", ""
	consider := func(target, src string) {
		if (inside == target || strings.HasPrefix(inside, target+"/")) && len(target) > len(best) {
			best, source = target, src
		}
	}
	consider(sandbox.HomeDir, p.Spec.Home)
	consider(sandbox.WorkspaceDir, p.Spec.Workspace)
	if p.Spec.Run != "" {
		consider(sandbox.RunDir, p.Spec.Run)
	}
	for _, m := range p.Spec.Mounts {
		consider(m.Target, m.Source)
	}
	if best == "" {
		return "", fmt.Errorf("fake: nothing of the host is mounted at %s", inside)
	}
	return filepath.Join(source, strings.TrimPrefix(inside, best)), nil
}

// File gives the data of a file below sandbox.RunDir.
func (p *Proc) File(name string) ([]byte, bool) {
	data, err := os.ReadFile(filepath.Join(p.Spec.Run, name))
	return data, err == nil
}

// SetUsage sets what Usage answers from now on.
func (p *Proc) SetUsage(u sandbox.Usage) {
	p.instance.mu.Lock()
	defer p.instance.mu.Unlock()
	p.instance.usage = u
}

// Driver is the fake. Set its hooks before the first call.
type Driver struct {
	// OnPrepare and OnStart run first in Prepare and Start; their error is the
	// answer of the call.
	OnPrepare func(ctx context.Context, s sandbox.Spec) error
	OnStart   func(ctx context.Context, s sandbox.Spec, c sandbox.Command) error
	// Attaches: prepared sandboxes take mounts and limits; otherwise none.
	SupportsAttach bool
	// Report is what Probe answers; New fills it.
	Report sandbox.Report

	script Script
	mu     sync.Mutex // guards live, swept
	live   map[string]*instance
	swept  int
}

// New makes a driver all of whose commands are played by script.
func New(script Script) *Driver {
	return &Driver{
		script: script,
		live:   map[string]*instance{},
		Report: sandbox.Report{Driver: "fake", Available: true, Rootless: true, Notes: []string{"Nothing is isolated: commands are functions of the test."}},
	}
}

// Name is "fake".
func (d *Driver) Name() string { return "fake" }

// Probe answers Report.
func (d *Driver) Probe(context.Context) sandbox.Report { return d.Report }

// Sweep counts its calls; a fake leaves nothing behind.
func (d *Driver) Sweep(context.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.swept++
	return nil
}

// Swept tells how often Sweep was called.
func (d *Driver) Swept() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.swept
}

// Live gives the sorted IDs of the sandboxes that were prepared and not closed.
func (d *Driver) Live() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	ids := make([]string, 0, len(d.live))
	for id := range d.live {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// Prepare makes a sandbox of nothing.
func (d *Driver) Prepare(ctx context.Context, s sandbox.Spec) (sandbox.Sandbox, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	if d.OnPrepare != nil {
		if err := d.OnPrepare(ctx, s); err != nil {
			return nil, err
		}
	}
	if err := rejectOverlays(s.Mounts); err != nil {
		return nil, err
	}
	s.Mounts = sandbox.Flatten(s.Mounts)
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("fake: preparing: %w", context.Cause(ctx))
	}
	b := &instance{driver: d, spec: s, term: make(chan struct{}), ended: make(chan struct{})}
	b.ctx, b.cancel = context.WithCancelCause(context.Background())
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, ok := d.live[s.ID]; ok {
		return nil, fmt.Errorf("fake: sandbox %s lives already", s.ID)
	}
	d.live[s.ID] = b
	return b, nil
}

func rejectOverlays(mounts []sandbox.Mount) error {
	if slices.ContainsFunc(mounts, sandbox.Mount.NeedsOverlay) {
		return fmt.Errorf("%w: a fake mounts nothing", sandbox.ErrOverlay)
	}
	return nil
}

func (d *Driver) remove(id string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.live, id)
}

var errKilled = errors.New("fake: killed")

// newProc gives what the script sees; the port allows nil streams, scripts
// never see them.
func (sb *instance) newProc(c sandbox.Command) *Proc {
	p := &Proc{Spec: sb.spec, Command: c, Stdin: c.Stdin, Stdout: &pipe{c.Stdout}, Stderr: &pipe{c.Stderr}, Term: sb.term, instance: sb}
	if p.Command.Dir == "" {
		p.Command.Dir = sandbox.WorkspaceDir
	}
	if p.Stdin == nil {
		p.Stdin = bytes.NewReader(nil)
	}
	if c.Stdout == nil {
		p.Stdout = io.Discard
	}
	if c.Stderr == nil {
		p.Stderr = io.Discard
	}
	return p
}

// pipe is a command's end of a stream: it does not see the reader fail.
type pipe struct{ to io.Writer }

func (p *pipe) Write(b []byte) (int, error) {
	if _, err := p.to.Write(b); err != nil {
		p.to = io.Discard
	}
	return len(b), nil
}
