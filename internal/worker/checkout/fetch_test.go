package checkout_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint/internal/worker/checkout"
)

// blockedLibrary is a library with a Checkout that sends its context to started and then
// blocks until it receives a value from release. If the context has ended by then,
// Checkout fails.
type blockedLibrary struct {
	library
	started chan context.Context
	release chan struct{}
}

func newBlockedLibrary() *blockedLibrary {
	return &blockedLibrary{started: make(chan context.Context, 8), release: make(chan struct{}, 8)}
}

func (l *blockedLibrary) Checkout(ctx context.Context, org, digest, dir string) error {
	l.started <- ctx
	<-l.release
	if err := ctx.Err(); err != nil {
		return err
	}
	return l.library.Checkout(ctx, org, digest, dir)
}

// newBlockedCache opens a cache with a blocked library. It returns the library and a
// function that acquires a checkout from the cache in the background. The function
// returns a channel that receives the error of Acquire.
func newBlockedCache(t *testing.T) (l *blockedLibrary, acquire func(context.Context) <-chan error) {
	t.Helper()
	l = newBlockedLibrary()
	c, err := checkout.Open(filepath.Join(t.TempDir(), "cache"), l, 1<<20, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return l, func(ctx context.Context) <-chan error {
		got := make(chan error, 1)
		go func() {
			co, err := c.Acquire(ctx, "org_a", "one")
			if err == nil {
				if diff := cmp.Diff([]string{"one"}, layers(t, co)); diff != "" {
					t.Error(diff)
				}
				co.Release()
			}
			got <- err
		}()
		synctest.Wait()
		return got
	}
}

func TestCancelledWaiterKeepsFetch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, acquire := newBlockedCache(t)
		ctx, cancel := context.WithCancel(t.Context())
		first := acquire(ctx)
		second := acquire(t.Context())
		cancel()
		synctest.Wait()
		l.release <- struct{}{}
		if err := <-second; err != nil {
			t.Errorf("the waiting caller got: %v", err)
		}
		if err := <-first; !errors.Is(err, context.Canceled) {
			t.Errorf("the cancelled caller got: %v", err)
		}
		if n := l.calls.Load(); n != 1 {
			t.Errorf("%d checkouts", n)
		}
	})
}

// TestFetchWithoutWaiters checks that a fetch is cancelled when its last waiting caller
// leaves. A caller that arrives before the cancelled fetch has ended causes a new fetch.
func TestFetchWithoutWaiters(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, acquire := newBlockedCache(t)
		ctx, cancel := context.WithCancel(t.Context())
		first, fetch := acquire(ctx), <-l.started
		cancel()
		if err := <-first; !errors.Is(err, context.Canceled) {
			t.Errorf("the cancelled caller got: %v", err)
		}
		if fetch.Err() == nil {
			t.Error("the fetch was not cancelled")
		}
		second := acquire(t.Context())
		l.release <- struct{}{}
		l.release <- struct{}{}
		if err := <-second; err != nil {
			t.Errorf("the next caller got: %v", err)
		}
	})
}

// TestRemoveWithoutLock checks that the cache does not hold its lock while it removes a
// folder, because every run needs the lock. It also checks that the cache still works if
// a folder cannot be removed.
func TestRemoveWithoutLock(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "cache")
	removals := 0
	var c *checkout.Cache
	c, err := checkout.OpenBy(dir, &library{}, 0, slog.New(slog.DiscardHandler), func(string) error {
		removals++
		if c.Locked() {
			t.Error("a folder is removed under the lock")
		}
		return os.ErrPermission
	})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		got := acquire(t, c, "one")
		if diff := cmp.Diff([]string{"one"}, layers(t, got)); diff != "" {
			t.Error(diff)
		}
		got.Release()
		c.Close() // waits for the end of the fetch, which may be the last user of the checkout
	}
	if removals != 3 {
		t.Errorf("%d removals", removals)
	}
	open(t, dir, &library{}, 0)
	if diff := cmp.Diff([]string{"boot"}, names(t, dir)); diff != "" {
		t.Errorf("the next start leaves (-want +got):\n%s", diff)
	}
}
