package worker

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/stint-dev/stint/internal/files"
	"github.com/stint-dev/stint/internal/sandbox"
)

// forks tells when programs can be run that were just written. A process that is
// being started has, until it runs its own program, all files of ours open, also
// those that were being written when it began; Linux runs no program that
// somebody has open for writing. The zero value is ready for use.
type forks struct {
	mu   sync.Mutex // guards open
	open map[chan struct{}]struct{}
}

// begin says that processes are about to be started; ended, that they run their
// own programs.
func (f *forks) begin() (ended func()) {
	start := make(chan struct{})
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.open == nil {
		f.open = map[chan struct{}]struct{}{}
	}
	f.open[start] = struct{}{}
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.open, start)
		close(start)
	}
}

// wait returns when all have ended that began before, or with ctx.
func (f *forks) wait(ctx context.Context) {
	f.mu.Lock()
	before := slices.Collect(maps.Keys(f.open))
	f.mu.Unlock()
	for _, start := range before {
		select {
		case <-start:
		case <-ctx.Done():
			return
		}
	}
}

// starter is a driver whose starts of processes are known.
type starter struct {
	sandbox.Driver
	forks *forks
}

func (s starter) Prepare(ctx context.Context, spec sandbox.Spec) (sandbox.Sandbox, error) {
	defer s.forks.begin()()
	return s.Driver.Prepare(ctx, spec)
}

// checkouts writes trees whose programs can be run at once.
type checkouts struct {
	library *files.Library
	forks   *forks
}

func (c checkouts) Checkout(ctx context.Context, org, digest, dir string) error {
	err := c.library.Checkout(ctx, org, digest, dir)
	c.forks.wait(ctx)
	return err
}
