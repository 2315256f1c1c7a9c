package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/config"
	"github.com/stint-dev/stint/internal/sandbox"
	"github.com/stint-dev/stint/internal/sandbox/gvisor"
	"github.com/stint-dev/stint/internal/sandbox/namespace"
)

// isolator is a sandbox driver with resources that Close releases.
type isolator interface {
	sandbox.Driver
	io.Closer
}

// isolators opens and keeps the isolators of this server. Each is opened at first use.
type isolators struct {
	floor string // the operator's default; definitions may not request a weaker isolator
	host  hostParts
	mu    sync.Mutex // guards open; held while an isolator is opened
	open  map[string]isolator
}

// hostParts contains the properties of the installation that isolators need.
type hostParts struct {
	c        *config.Config
	state    string   // folder with a subfolder for each isolator
	private  []string // folders that are hidden from sandboxes
	instance string   // distinguishes installations on this machine
	trust    string   // file with the CA certificates for sandboxes; empty: those of the system
	log      *slog.Logger
}

// makers contains the functions that open isolators, by the isolator's name.
var makers = map[string]func(hostParts) (isolator, error){
	"namespace": func(h hostParts) (isolator, error) {
		return namespace.New(namespace.Config{
			StateDir: filepath.Join(h.state, "namespace"), Instance: h.instance, Private: h.private, TrustBundle: h.trust, Logger: h.log,
		})
	},
	"gvisor": func(h hostParts) (isolator, error) {
		return gvisor.New(gvisor.Config{Runsc: h.c.Runsc, Config: namespace.Config{
			StateDir: filepath.Join(h.state, "gvisor"), Instance: "g-" + h.instance, Private: h.private, TrustBundle: h.trust, Logger: h.log,
			UIDBase: namespace.SecondUIDBase,
		}})
	},
}

// strength orders isolators. A definition may request an isolator that is at least as
// strong as the operator's default.
var strength = map[string]int{"namespace": 1, "gvisor": 2}

// openIsolators opens the default isolator and returns an error if it is not available.
// It also opens the isolators that an earlier process used, to remove the sandboxes that
// the process left.
func openIsolators(ctx context.Context, h hostParts) (*isolators, error) {
	s := &isolators{floor: h.c.Isolation, host: h, open: map[string]isolator{}}
	if _, err := s.get(ctx, s.floor); err != nil {
		return nil, errors.Join(err, s.close())
	}
	for name := range makers {
		if _, err := os.Stat(filepath.Join(h.state, name)); err != nil {
			continue // this isolator was never used
		}
		earlier, err := s.get(ctx, name)
		if err == nil {
			err = earlier.Sweep(ctx)
		}
		if err != nil {
			h.log.Warn("cannot remove the remains of an earlier process", "isolation", name, "error", err)
		}
	}
	h.reportDockerState()
	return s, nil
}

// reportDockerState logs a warning if an earlier release ran agents in Docker
// containers here and left a folder with their state. The server does not remove
// this folder: after a crash, files of volumes can still be mounted below it.
func (h hostParts) reportDockerState() {
	folder := h.c.DockerState()
	if folder == "" {
		return
	}
	h.log.Warn("the Docker isolation was removed from Stint; delete its containers and images by their label, and its folder if nothing is mounted below it",
		"folder", folder, "label", "dev.stint.instance="+h.instance)
}

// get returns the isolator with the name, and opens it at the first call. If it is not
// available on this machine, the error wraps sandbox.ErrUnavailable.
func (s *isolators) get(ctx context.Context, name string) (isolator, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if d, ok := s.open[name]; ok {
		return d, nil
	}
	d, err := open(ctx, name, s.host)
	if err != nil {
		return nil, fmt.Errorf("open the isolation '%s': %w", name, err)
	}
	report := sandbox.Bound(d, sandbox.SetupLimit).Probe(ctx)
	if !report.Available {
		err := fmt.Errorf("the isolation '%s': %w: %s. Agents do not run without isolation", name, sandbox.ErrUnavailable, strings.Join(report.Notes, " "))
		return nil, errors.Join(err, d.Close())
	}
	s.host.log.Info("sandbox", "driver", report.Driver, "rootless", report.Rootless, "network", report.Network,
		"cpu", report.Limits.CPU, "memory", report.Limits.Memory, "pids", report.Limits.Pids, "disk", report.Limits.Disk)
	s.open[name] = d
	return d, nil
}

// working returns the names of the isolators that definitions may request and that work
// on this machine. It does not open isolators.
func (s *isolators) working(ctx context.Context) []string {
	var out []string
	for _, name := range s.names() {
		s.mu.Lock()
		_, open := s.open[name]
		s.mu.Unlock()
		if open || Probe(ctx, *s.host.c, name).Available {
			out = append(out, name)
		}
	}
	return out
}

// open opens an isolator. It returns an error if this takes longer than the time limit,
// or if ctx ends.
func open(ctx context.Context, name string, h hostParts) (d isolator, err error) {
	var opened isolator // read only after the maker has returned
	err = sandbox.Within(ctx, sandbox.SetupLimit, "open", func(context.Context) (err error) {
		opened, err = makers[name](h)
		return err
	}, func() { _ = opened.Close() }) // nothing uses it
	if err != nil {
		return nil, err
	}
	return opened, nil
}

// named returns the isolator that a definition requests. Its errors are messages for the
// author of the definition.
func (s *isolators) named(ctx context.Context, name string) (sandbox.Driver, error) {
	if err := s.allows(name); err != nil {
		return nil, err
	}
	d, err := s.get(ctx, name)
	if errors.Is(err, sandbox.ErrTimeLimit) || errors.Is(err, context.DeadlineExceeded) {
		return nil, err // the host is responsible, not the definition
	}
	if err != nil {
		s.host.log.Warn("an agent requests an isolation that does not work on this machine", "isolation", name, "error", err)
		return nil, stint.InvalidParam("sandbox", "The agent's sandbox '%s' does not work on this server's machine. Change 'sandbox' in the agent's definition, or ask the operator to run 'stint doctor', which shows the reason.", name)
	}
	return d, nil
}

// allows returns an error if the isolator with the name does not exist or is weaker than
// the default.
func (s *isolators) allows(name string) error {
	switch {
	case name == "" || name == "default" || name == s.floor:
		return nil
	case name == "docker":
		return stint.InvalidParam("sandbox", "The sandbox 'docker' was removed from Stint. Change the agent's definition to %s.", s.replacements())
	case makers[name] == nil:
		return stint.InvalidParam("sandbox", "This server does not have the sandbox '%s'. Use 'default' or one of %s.", name, strings.Join(s.names(), ", "))
	case strength[name] < strength[s.floor]:
		return stint.InvalidParam("sandbox", "The sandbox '%s' is weaker than '%s', which this server requires. Use 'default' or '%s'.", name, s.floor, s.floor)
	}
	return nil
}

// replacements returns, for a message, the lines that a definition can contain instead of
// a removed sandbox.
func (s *isolators) replacements() string {
	return "'sandbox: " + strings.Join(s.names(), "' or 'sandbox: ") + "'"
}

func (s *isolators) names() []string {
	var out []string
	for name := range makers {
		if strength[name] >= strength[s.floor] {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

func (s *isolators) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, d := range s.open {
		errs = append(errs, d.Close())
	}
	return errors.Join(errs...)
}

// Isolations returns the names of all isolators, sorted.
func Isolations() []string { return slices.Sorted(maps.Keys(makers)) }

// Probe returns the capabilities of an isolator on this machine. It leaves nothing
// behind, even if ctx ends first.
func Probe(ctx context.Context, c config.Config, name string) sandbox.Report {
	report := sandbox.Report{Driver: name}
	dir, err := os.MkdirTemp("", "stint-doctor-")
	if err != nil {
		report.Notes = []string{err.Error()}
		return report
	}
	defer func() { _ = sandbox.Remove(dir) }() // a temporary folder
	d, err := open(ctx, name, hostParts{c: &c, state: dir, instance: fmt.Sprintf("doctor-%d", os.Getpid()), log: slog.New(slog.DiscardHandler)})
	if ctx.Err() != nil {
		err = errors.New("a trial did not end in time")
	}
	if err != nil {
		report.Notes = []string{err.Error()}
		return report
	}
	defer func() { _ = d.Close() }() // no sandbox was created
	return sandbox.Bound(d, sandbox.SetupLimit).Probe(ctx)
}
