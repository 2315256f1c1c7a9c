package sandbox_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-dev/stint/internal/sandbox"
	"github.com/stint-dev/stint/internal/sandbox/sandboxtest/fake"
)

// spec is a spec without files.
var spec = sandbox.Spec{ID: "x", Home: "/h", Workspace: "/w", Scratch: "/s"}

// TestBound checks that calls of a driver that does not react to the end of its context
// return after the limit, and that a sandbox that is prepared late is closed.
func TestBound(t *testing.T) {
	t.Parallel()
	for name, call := range map[string]func(t *testing.T, d *fake.Driver, hang func()) error{
		"prepare": func(t *testing.T, d *fake.Driver, hang func()) error {
			d.OnPrepare = func(context.Context, sandbox.Spec) error { hang(); return nil }
			_, err := sandbox.Bound(d, sandbox.SetupLimit).Prepare(t.Context(), spec)
			return err
		},
		"start": func(t *testing.T, d *fake.Driver, hang func()) error {
			d.OnStart = func(context.Context, sandbox.Spec, sandbox.Command) error { hang(); return nil }
			b, err := sandbox.Bound(d, sandbox.SetupLimit).Prepare(t.Context(), spec)
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := b.Close(t.Context()); err != nil {
					t.Error(err)
				}
			}()
			return b.Start(t.Context(), sandbox.Command{Argv: []string{"x"}})
		},
		"within": func(t *testing.T, _ *fake.Driver, hang func()) error {
			return sandbox.Within(t.Context(), sandbox.SetupLimit, "call", func(context.Context) error { hang(); return nil }, nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				release := make(chan struct{})
				d := fake.New(func(context.Context, *fake.Proc) sandbox.Exit { return sandbox.Exit{} })
				begin := time.Now()
				err := call(t, d, func() { <-release })
				if took := time.Since(begin); !errors.Is(err, sandbox.ErrTimeLimit) || took != sandbox.SetupLimit+time.Second {
					t.Errorf("returned %v after %s", err, took)
				}
				close(release)
				synctest.Wait()
				if live := d.Live(); len(live) > 0 {
					t.Errorf("left behind: %q", live)
				}
			})
		})
	}
}

// TestWithinPassesOn checks that Within returns the result of a call that reacts to the
// end of its context, and does not call late.
func TestWithinPassesOn(t *testing.T) {
	t.Parallel()
	late := func() { t.Error("late was called") }
	if err := sandbox.Within(t.Context(), time.Hour, "call", func(context.Context) error { return nil }, late); err != nil {
		t.Error(err)
	}
	wrong := errors.New("wrong")
	if err := sandbox.Within(t.Context(), time.Hour, "call", func(context.Context) error { return wrong }, late); !errors.Is(err, wrong) || errors.Is(err, sandbox.ErrTimeLimit) {
		t.Errorf("a failed call: %v", err)
	}
	err := sandbox.Within(t.Context(), time.Millisecond, "call", func(ctx context.Context) error { <-ctx.Done(); return errors.Join(wrong, ctx.Err()) }, late)
	if !errors.Is(err, wrong) || !errors.Is(err, sandbox.ErrTimeLimit) {
		t.Errorf("a call that reacts to the limit: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err = sandbox.Within(ctx, time.Hour, "call", func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, late)
	if !errors.Is(err, context.Canceled) || errors.Is(err, sandbox.ErrTimeLimit) {
		t.Errorf("a cancelled call: %v", err)
	}
}
