package groupcommit_test

import (
	"context"
	"errors"
	"iter"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/stint-dev/stint/internal/store/groupcommit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errOdd = errors.New("odd")

// parity returns a Commit that returns errOdd for odd numbers and appends the number of
// items of each group to sizes.
func parity(sizes *[]int) groupcommit.Commit[int] {
	return func(items iter.Seq[int]) []error {
		var results []error
		for n := range items {
			var err error
			if n%2 == 1 {
				err = errOdd
			}
			results = append(results, err)
		}
		*sizes = append(*sizes, len(results))
		return results
	}
}

func TestEachCallerGetsItsResult(t *testing.T) {
	t.Parallel()
	var sizes []int
	g := groupcommit.New(1, 8, parity(&sizes))
	var callers sync.WaitGroup
	for n := range 200 {
		callers.Go(func() {
			err := g.Do(t.Context(), n)
			if odd := n%2 == 1; odd != errors.Is(err, errOdd) || !odd && err != nil {
				t.Errorf("Do(%d) = %v", n, err)
			}
		})
	}
	callers.Wait()
	g.Close()
	sum := 0
	for _, size := range sizes {
		sum += size
		if size > 8 {
			t.Errorf("a group of %d items, want at most 8", size)
		}
	}
	if sum != 200 {
		t.Errorf("%d items were committed, want 200", sum)
	}
}

func TestWaitingItemsShareACommit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var sizes []int
		entered, release := make(chan struct{}), make(chan struct{})
		count := parity(&sizes)
		first := true
		g := groupcommit.New(1, 8, func(items iter.Seq[int]) []error {
			if first {
				first = false
				close(entered)
				<-release
				for range items {
					return nil // commits only the first item of the group
				}
			}
			return count(items)
		})
		var callers sync.WaitGroup
		do := func() {
			if err := g.Do(t.Context(), 0); err != nil {
				t.Error(err)
			}
		}
		callers.Go(do)
		<-entered
		for range 4 {
			callers.Go(do)
		}
		synctest.Wait() // all four wait for the commit in progress
		close(release)
		callers.Wait()
		g.Close()
		if diff := cmp.Diff([]int{4}, sizes); diff != "" {
			t.Errorf("sizes of the later commits (-want +got):\n%s", diff)
		}
	})
}

func TestPanicReachesCallers(t *testing.T) {
	t.Parallel()
	g := groupcommit.New(1, 8, func(items iter.Seq[string]) []error {
		for item := range items {
			if item == "bomb" {
				panic("boom")
			}
		}
		return nil
	})
	defer g.Close()
	if err := g.Do(t.Context(), "bomb"); err == nil || !strings.Contains(err.Error(), "boom") {
		t.Errorf("Do = %v, want the panic", err)
	}
	if err := g.Do(t.Context(), "fine"); err != nil {
		t.Errorf("after the panic: %v", err)
	}
}

func TestWrongNumberOfResults(t *testing.T) {
	t.Parallel()
	g := groupcommit.New(1, 8, func(items iter.Seq[int]) []error {
		for range items {
		}
		return make([]error, 99)
	})
	defer g.Close()
	if err := g.Do(t.Context(), 1); err == nil {
		t.Error("Do succeeded")
	}
}

func TestCommitTakesNoItem(t *testing.T) {
	t.Parallel()
	g := groupcommit.New(1, 8, func(iter.Seq[int]) []error { return nil })
	defer g.Close()
	if err := g.Do(t.Context(), 1); err == nil {
		t.Error("Do succeeded")
	}
}

func TestEndedContextIsNotCommitted(t *testing.T) {
	t.Parallel()
	entered, release := make(chan struct{}), make(chan struct{})
	var seen []string
	g := groupcommit.New(1, 1, func(items iter.Seq[string]) []error {
		for item := range items {
			seen = append(seen, item)
			if item == "slow" {
				close(entered)
				<-release
			}
		}
		return nil
	})
	var callers sync.WaitGroup
	callers.Go(func() {
		if err := g.Do(t.Context(), "slow"); err != nil {
			t.Error(err)
		}
	})
	<-entered
	left := errors.New("left")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(left)
	if err := g.Do(ctx, "late"); !errors.Is(err, left) {
		t.Errorf("Do = %v, want the cause", err)
	}
	close(release)
	callers.Wait()
	g.Close()
	if diff := cmp.Diff([]string{"slow"}, seen); diff != "" {
		t.Error(diff)
	}
}

func TestClosedGroupRefuses(t *testing.T) {
	t.Parallel()
	g := groupcommit.New(2, 4, func(items iter.Seq[int]) []error { return nil })
	g.Close()
	g.Close()
	if err := g.Do(t.Context(), 1); !errors.Is(err, groupcommit.ErrClosed) {
		t.Errorf("Do = %v, want ErrClosed", err)
	}
}
