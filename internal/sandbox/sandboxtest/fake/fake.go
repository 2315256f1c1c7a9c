// Package fake implements sandbox.Driver for tests of code that uses sandboxes.
// Its commands are Go functions of the test: no process is started and nothing
// is isolated. It keeps the port's guarantees about order, output, kill, and
// idempotence.
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

// Script implements every command of a sandbox. The end of ctx simulates SIGKILL: the
// script must return soon after it. Proc.Term simulates SIGTERM. If the returned Exit
// has no Cause, the cause is sandbox.Exited.
type Script func(ctx context.Context, p *Proc) sandbox.Exit

// Proc is a script's view of its sandbox.
type Proc struct {
	Spec    sandbox.Spec // Home and Workspace are the folders on the host
	Command sandbox.Command
	Stdin   io.Reader // never nil
	Stdout  io.Writer // never nil
	Stderr  io.Writer // never nil
	// Term is closed when Kill asks the command to end. The script's context ends
	// after the grace period.
	Term <-chan struct{}

	instance *instance
}

// Host returns the host path of a path inside the sandbox. It fails for paths
// that are not in a folder of the spec.
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
		return "", fmt.Errorf("fake: no host folder is mounted at %s", inside)
	}
	return filepath.Join(source, strings.TrimPrefix(inside, best)), nil
}

// File returns the content of a file below sandbox.RunDir, and reports whether the
// file could be read.
func (p *Proc) File(name string) ([]byte, bool) {
	data, err := os.ReadFile(filepath.Join(p.Spec.Run, name))
	return data, err == nil
}

// SetUsage sets the values that the sandbox's Usage method returns.
func (p *Proc) SetUsage(u sandbox.Usage) {
	p.instance.mu.Lock()
	defer p.instance.mu.Unlock()
	p.instance.usage = u
}

// Driver is the fake driver. Its fields must be set before the first call.
type Driver struct {
	// OnPrepare and OnStart, if not nil, are called by Prepare and Start after the
	// spec or command was checked. If they fail, Prepare and Start return the error.
	OnPrepare func(ctx context.Context, s sandbox.Spec) error
	OnStart   func(ctx context.Context, s sandbox.Spec, c sandbox.Command) error
	// SupportsAttach enables Sandbox.Attach, which otherwise returns
	// sandbox.ErrAttach.
	SupportsAttach bool
	// Report is returned by Probe. New sets it.
	Report sandbox.Report

	script Script
	mu     sync.Mutex // guards live, swept
	live   map[string]*instance
	swept  int
}

// New returns a driver that runs script for each command.
func New(script Script) *Driver {
	return &Driver{
		script: script,
		live:   map[string]*instance{},
		Report: sandbox.Report{Driver: "fake", Available: true, Rootless: true, Notes: []string{"Commands are functions of the test and are not isolated."}},
	}
}

// Name returns "fake".
func (d *Driver) Name() string { return "fake" }

// Probe returns Report.
func (d *Driver) Probe(context.Context) sandbox.Report { return d.Report }

// Sweep only counts its calls: a fake driver leaves nothing behind.
func (d *Driver) Sweep(context.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.swept++
	return nil
}

// Swept returns the number of calls of Sweep.
func (d *Driver) Swept() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.swept
}

// Live returns the sorted IDs of the sandboxes that are prepared and not yet closed.
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

// Prepare returns a sandbox that runs the driver's script. It fails if a sandbox with
// the same ID is not closed, and with sandbox.ErrOverlay if a mount needs an overlay.
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
		return nil, fmt.Errorf("fake: sandbox %s exists already", s.ID)
	}
	d.live[s.ID] = b
	return b, nil
}

func rejectOverlays(mounts []sandbox.Mount) error {
	if slices.ContainsFunc(mounts, sandbox.Mount.NeedsOverlay) {
		return fmt.Errorf("%w: the fake driver cannot mount", sandbox.ErrOverlay)
	}
	return nil
}

func (d *Driver) remove(id string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.live, id)
}

var errKilled = errors.New("fake: killed")

// newProc returns the script's view of its sandbox for the command c. The port allows
// nil streams: a nil Stdin is replaced by an empty reader, and nil writers by
// io.Discard.
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

// pipe is the writer that a script receives for an output stream. Its Write never
// fails: after an error of the caller's writer it discards the output.
type pipe struct{ to io.Writer }

func (p *pipe) Write(b []byte) (int, error) {
	if _, err := p.to.Write(b); err != nil {
		p.to = io.Discard
	}
	return len(b), nil
}
