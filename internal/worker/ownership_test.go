package worker_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/sandbox"
	"github.com/stint-dev/stint/internal/sandbox/sandboxtest/fake"
	"github.com/stint-dev/stint/internal/store"
	"github.com/stint-dev/stint/internal/worker"
)

// blobs returns the number of stored objects.
func (w *world) blobs() (n int) {
	w.t.Helper()
	check(w.t, filepath.WalkDir(filepath.Join(w.dir, "blobs"), func(_ string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			n++
		}
		return err
	}))
	return n
}

// TestLostRunStoresNothing checks that a worker that stops or loses its lease stores no
// files of the run, because no version or checkpoint could refer to these files.
func TestLostRunStoresNothing(t *testing.T) {
	t.Parallel()
	for name, lease := range map[string]bool{"the worker stops": false, "the lease is lost": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var losing atomic.Bool
			d := &hookedDispatcher{onRenew: func() error {
				if losing.CompareAndSwap(true, false) {
					return store.ErrLeaseLost
				}
				return nil
			}}
			if lease {
				d.lease = 30 * time.Millisecond
			}
			started, killed := make(chan struct{}), make(chan struct{})
			w := newWorld(t, func(ctx context.Context, p *fake.Proc) sandbox.Exit {
				check(t, os.WriteFile(filepath.Join(p.Spec.Workspace, "half.txt"), []byte("half"), 0o600))
				close(started)
				<-ctx.Done()
				close(killed)
				return sandbox.Exit{Code: 137, Signal: 9, Cause: sandbox.Killed}
			}, withDispatcher(d), func(c *worker.Config) {
				if !lease {
					c.Drain = time.Millisecond
				}
			})
			w.agent(shell)
			w.create(stint.NewRun{Agent: "agent"})
			<-started
			if lease {
				losing.Store(true)
				<-killed
			}
			w.stop()
			if n := w.blobs(); n != 0 {
				t.Errorf("%d objects are stored", n)
			}
		})
	}
}

// TestStopAfterLimitWhileStoreFails checks that a worker stops while the store is
// unavailable, even if the idle limit ended the run before the worker was stopped.
func TestStopAfterLimitWhileStoreFails(t *testing.T) {
	t.Parallel()
	var away atomic.Bool
	away.Store(true)
	fault := func() error {
		if away.Load() {
			return errors.New("the store is unavailable")
		}
		return nil
	}
	d := &hookedDispatcher{onAppend: func(store.Batch) error { return fault() }, onFinish: func(store.Outcome) error { return fault() }}
	limited := make(chan struct{})
	w := newWorld(t, func(_ context.Context, p *fake.Proc) sandbox.Exit {
		<-p.Term
		close(limited)
		return sandbox.Exit{Code: 143, Signal: 15, Cause: sandbox.Killed}
	}, withDispatcher(d), func(c *worker.Config) { c.Drain = time.Millisecond })
	w.agent(`{"framework":"shell","limits":{"idleTimeout":"1s"}}`)
	w.create(stint.NewRun{Agent: "agent"})
	<-limited
	stopped := make(chan struct{})
	go func() { defer close(stopped); w.stop() }()
	select {
	case <-stopped:
	case <-time.After(maxWait):
		t.Error("the worker does not stop")
		away.Store(false)
		<-stopped
	}
}
