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

// Isolator is a driver that holds something of the host until it is closed.
type Isolator interface {
	sandbox.Driver
	io.Closer
}

// isolators are the ways in which this server can keep runs apart, each opened
// when it is first asked for.
type isolators struct {
	floor string // the operator's default
	host  hostParts
	mu    sync.Mutex // guards open; held while one opens
	open  map[string]Isolator
}

// hostParts is what isolators are given of this installation.
type hostParts struct {
	c        *config.Config
	state    string   // folder, with one for each isolator below it
	private  []string // folders that no agent may see
	instance string   // tells installations on this machine apart
	trust    string   // file of the certificates that programs in sandboxes trust; empty: the system's own
	log      *slog.Logger
}

// makers open the isolators that this program carries.
var makers = map[string]func(hostParts) (Isolator, error){
	"namespace": func(h hostParts) (Isolator, error) {
		return namespace.New(namespace.Config{
			StateDir: filepath.Join(h.state, "namespace"), Instance: h.instance, Private: h.private, TrustBundle: h.trust, Logger: h.log,
		})
	},
	"gvisor": func(h hostParts) (Isolator, error) {
		return gvisor.New(gvisor.Config{Runsc: h.c.Runsc, Config: namespace.Config{
			StateDir: filepath.Join(h.state, "gvisor"), Instance: "g-" + h.instance, Private: h.private, TrustBundle: h.trust, Logger: h.log,
			UIDBase: namespace.SecondUIDBase,
		}})
	},
}

// strength orders them: an agent may ask for a stronger one than the operator's
// default or one that is as strong, never for a weaker.
var strength = map[string]int{"namespace": 1, "gvisor": 2}

// openIsolators opens the default, and those that were used in an earlier life:
// what it left of them must go. It refuses to go on without the default.
func openIsolators(ctx context.Context, h hostParts) (*isolators, error) {
	s := &isolators{floor: h.c.Isolation, host: h, open: map[string]Isolator{}}
	if _, err := s.get(ctx, s.floor); err != nil {
		return nil, errors.Join(err, s.close())
	}
	for name := range makers {
		if _, err := os.Stat(filepath.Join(h.state, name)); err != nil {
			continue // never used
		}
		earlier, err := s.get(ctx, name)
		if err == nil {
			err = earlier.Sweep(ctx)
		}
		if err != nil {
			h.log.Warn("what an earlier life left of an isolation cannot be removed", "isolation", name, "error", err)
		}
	}
	h.reportDockerState()
	return s, nil
}

// reportDockerState logs a warning if an earlier release ran agents in Docker
// containers here. The server does not remove the folder: after a crash, files
// of volumes can still be mounted below it.
func (h hostParts) reportDockerState() {
	folder := h.c.DockerState()
	if folder == "" {
		return
	}
	h.log.Warn("the Docker isolation was removed: its folder may be removed if nothing is mounted below it, and so may the containers and images with its label",
		"folder", folder, "label", "dev.stint.instance="+h.instance)
}

// get gives an isolator that works here.
func (s *isolators) get(ctx context.Context, name string) (Isolator, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if d, ok := s.open[name]; ok {
		return d, nil
	}
	d, err := makers[name](s.host)
	if err != nil {
		return nil, fmt.Errorf("open sandbox: %w", err)
	}
	report := d.Probe(ctx)
	if !report.Available {
		return nil, errors.Join(fmt.Errorf("%w: %s. Agents are never run without isolation", sandbox.ErrUnavailable, strings.Join(report.Notes, " ")), d.Close())
	}
	s.host.log.Info("sandbox", "driver", report.Driver, "rootless", report.Rootless, "network", report.Network,
		"cpu", report.Limits.CPU, "memory", report.Limits.Memory, "pids", report.Limits.Pids, "disk", report.Limits.Disk)
	s.open[name] = d
	return d, nil
}

// named gives the isolator that a definition asks for. The errors are sentences
// for its author.
func (s *isolators) named(ctx context.Context, name string) (sandbox.Driver, error) {
	if err := s.allows(name); err != nil {
		return nil, err
	}
	d, err := s.get(ctx, name)
	if err != nil {
		s.host.log.Warn("an agent asks for an isolation that does not work here", "isolation", name, "error", err)
		return nil, stint.InvalidParam("sandbox", "The agent asks for the sandbox '%s', which does not work on this server's machine. Change 'sandbox' in the agent's definition, or ask the operator ('stint doctor' tells why).", name)
	}
	return d, nil
}

// allows refuses what this server does not have, and what is weaker than its
// default.
func (s *isolators) allows(name string) error {
	switch {
	case name == "" || name == "default" || name == s.floor:
		return nil
	case name == "docker":
		return stint.InvalidParam("sandbox", "The sandbox 'docker' was removed from Stint. Change the agent's definition to %s.", s.replacements())
	case makers[name] == nil:
		return stint.InvalidParam("sandbox", "The sandbox '%s' is not offered by this server. Use 'default' or one of %s.", name, strings.Join(s.names(), ", "))
	case strength[name] < strength[s.floor]:
		return stint.InvalidParam("sandbox", "The sandbox '%s' is weaker than '%s', which this server demands. Use 'default' or '%s'.", name, s.floor, s.floor)
	}
	return nil
}

// replacements returns what a definition can ask for instead of a sandbox that
// was removed.
func (s *isolators) replacements() string {
	names := s.names()
	for i, name := range names {
		names[i] = "'sandbox: " + name + "'"
	}
	return strings.Join(names, " or ")
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

// Probe tells what each isolator can do on this machine. It changes nothing
// that outlives it.
func Probe(ctx context.Context, c config.Config) []sandbox.Report {
	var out []sandbox.Report
	for _, name := range slices.Sorted(maps.Keys(makers)) {
		out = append(out, probe(ctx, &c, name))
	}
	return out
}

// OpenIsolator opens an isolator by itself, with its state below the data
// folder, and makes sure that it works here.
func OpenIsolator(ctx context.Context, c *config.Config, name string) (Isolator, error) {
	open, ok := makers[name]
	if !ok {
		return nil, fmt.Errorf("there is no isolation '%s'", name)
	}
	d, err := open(hostParts{c: c, state: filepath.Join(c.Data, "sandbox"), instance: fmt.Sprintf("bench-%d", os.Getpid()), log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, err
	}
	if r := d.Probe(ctx); !r.Available {
		return nil, errors.Join(fmt.Errorf("%w: %s", sandbox.ErrUnavailable, strings.Join(r.Notes, " ")), d.Close())
	}
	return d, nil
}

func probe(ctx context.Context, c *config.Config, name string) sandbox.Report {
	report := sandbox.Report{Driver: name}
	dir, err := os.MkdirTemp("", "stint-doctor-")
	if err != nil {
		report.Notes = []string{err.Error()}
		return report
	}
	defer func() { _ = os.RemoveAll(dir) }() // it is temporary
	d, err := makers[name](hostParts{c: c, state: dir, instance: fmt.Sprintf("doctor-%d", os.Getpid()), log: slog.New(slog.DiscardHandler)})
	if err != nil {
		report.Notes = []string{err.Error()}
		return report
	}
	defer func() { _ = d.Close() }() // nothing was made with it
	return d.Probe(ctx)
}
