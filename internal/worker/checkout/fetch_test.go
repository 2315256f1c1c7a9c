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

// slow checks out when it is let, or ends with its context when it is let.
type slow struct {
	library
	asked chan context.Context
	let   chan struct{}
}

func newSlow() *slow { return &slow{asked: make(chan context.Context, 8), let: make(chan struct{}, 8)} }

func (s *slow) Checkout(ctx context.Context, org, digest, dir string) error {
	s.asked <- ctx
	<-s.let
	if err := ctx.Err(); err != nil {
		return err
	}
	return s.library.Checkout(ctx, org, digest, dir)
}

// fetches is a cache with a slow library, and how somebody wants a tree of it.
func fetches(t *testing.T) (s *slow, want func(context.Context) <-chan error) {
	t.Helper()
	s = newSlow()
	c, err := checkout.Open(filepath.Join(t.TempDir(), "cache"), s, 1<<20, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return s, func(ctx context.Context) <-chan error {
		got := make(chan error, 1)
		go func() {
			tree, err := c.Acquire(ctx, "org_a", "one")
			if err == nil {
				if diff := cmp.Diff([]string{"one"}, shows(t, tree)); diff != "" {
					t.Error(diff)
				}
				tree.Release()
			}
			got <- err
		}()
		synctest.Wait()
		return got
	}
}

func TestWhoGivesUpLeavesTheFetchToOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, want := fetches(t)
		ctx, giveUp := context.WithCancel(t.Context())
		first := want(ctx)
		second := want(t.Context())
		giveUp()
		synctest.Wait()
		s.let <- struct{}{}
		if err := <-second; err != nil {
			t.Errorf("the one who stayed got: %v", err)
		}
		if err := <-first; !errors.Is(err, context.Canceled) {
			t.Errorf("the one who gave up got: %v", err)
		}
		if n := s.calls.Load(); n != 1 {
			t.Errorf("%d checkouts", n)
		}
	})
}

// TestWhatNobodyWantsIsFetchedNoFurther; who wants it before that fetch is over
// gets another.
func TestWhatNobodyWantsIsFetchedNoFurther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, want := fetches(t)
		ctx, giveUp := context.WithCancel(t.Context())
		first, fetch := want(ctx), <-s.asked
		giveUp()
		if err := <-first; !errors.Is(err, context.Canceled) {
			t.Errorf("the one who gave up got: %v", err)
		}
		if fetch.Err() == nil {
			t.Error("the fetch goes on")
		}
		second := want(t.Context())
		s.let <- struct{}{}
		s.let <- struct{}{}
		if err := <-second; err != nil {
			t.Errorf("the next got: %v", err)
		}
	})
}

// TestTreesAreDeletedAside: others need the lock for every run, and a folder
// that cannot be deleted is not in their way either.
func TestTreesAreDeletedAside(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "cache")
	deletions := 0
	var c *checkout.Cache
	c, err := checkout.OpenBy(dir, &library{}, 0, slog.New(slog.DiscardHandler), func(string) error {
		deletions++
		if c.Locked() {
			t.Error("a tree is deleted under the lock")
		}
		return os.ErrPermission
	})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		tree := acquire(t, c, "one")
		if diff := cmp.Diff([]string{"one"}, shows(t, tree)); diff != "" {
			t.Error(diff)
		}
		tree.Release()
		c.Close() // the fetch may give it back last
	}
	if deletions != 3 {
		t.Errorf("%d deletions", deletions)
	}
	open(t, dir, &library{}, 0)
	if diff := cmp.Diff([]string{"boot"}, names(t, dir)); diff != "" {
		t.Errorf("the next start leaves (-want +got):\n%s", diff)
	}
}
