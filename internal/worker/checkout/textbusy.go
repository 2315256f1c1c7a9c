package checkout

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/stint-dev/stint/internal/sandbox"
)

// Starts avoids the error ETXTBSY, with which Linux refuses to execute a file that is
// open for writing. A child process inherits all open files of this process,
// including files that are being written, and keeps them open until it executes its
// own program. Therefore, a checkout waits at its end for the starts of processes
// that are in progress. The zero value is ready for use. A Starts is safe for
// concurrent use.
type Starts struct {
	mu   sync.Mutex // guards open
	open map[chan struct{}]struct{}
}

// Begin records that processes are about to be started. The caller must call
// ended once, after the processes have executed their own programs.
func (s *Starts) Begin() (ended func()) {
	start := make(chan struct{})
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == nil {
		s.open = map[chan struct{}]struct{}{}
	}
	s.open[start] = struct{}{}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.open, start)
		close(start)
	}
}

// Wait waits until all starts that began before this call have ended, or ctx ends.
func (s *Starts) Wait(ctx context.Context) {
	s.mu.Lock()
	before := slices.Collect(maps.Keys(s.open))
	s.mu.Unlock()
	for _, start := range before {
		select {
		case <-start:
		case <-ctx.Done():
			return
		}
	}
}

// Driver returns a driver that is like d and records the starts of processes in
// Prepare.
func (s *Starts) Driver(d sandbox.Driver) sandbox.Driver { return recordedDriver{d, s} }

type recordedDriver struct {
	sandbox.Driver
	starts *Starts
}

func (d recordedDriver) Prepare(ctx context.Context, spec sandbox.Spec) (sandbox.Sandbox, error) {
	defer d.starts.Begin()()
	return d.Driver.Prepare(ctx, spec)
}

// Snapshots returns an implementation of Snapshots that is like from. When its
// Checkout returns, programs in the folder can be executed without ETXTBSY.
func (s *Starts) Snapshots(from Snapshots) Snapshots { return executableSnapshots{from, s} }

type executableSnapshots struct {
	Snapshots
	starts *Starts
}

func (e executableSnapshots) Checkout(ctx context.Context, org, digest, dir string) error {
	err := e.Snapshots.Checkout(ctx, org, digest, dir)
	e.starts.Wait(ctx)
	return err
}
