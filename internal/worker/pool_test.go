package worker_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/sandbox"
	"github.com/stint-dev/stint/internal/sandbox/sandboxtest/fake"
	"github.com/stint-dev/stint/internal/worker"
)

// newPoolWorld returns a world with a pool of one sandbox, and a channel that receives
// the spec of each sandbox in which a command runs. attaches determines whether the
// isolator supports Attach.
func newPoolWorld(t *testing.T, attaches bool, more ...change) (*world, chan sandbox.Spec) {
	t.Helper()
	seen := make(chan sandbox.Spec, 8)
	d := fake.New(func(_ context.Context, p *fake.Proc) sandbox.Exit {
		seen <- p.Spec
		if prompt, _ := p.File("prompt"); string(prompt) != "do it" {
			return sandbox.Exit{Code: 3}
		}
		if err := os.WriteFile(filepath.Join(p.Spec.Workspace, "out"), []byte("x"), 0o600); err != nil {
			return sandbox.Exit{Code: 4}
		}
		return sandbox.Exit{}
	})
	d.SupportsAttach = attaches
	w := newWorld(t, nil, append([]change{func(c *worker.Config) {
		c.Driver, c.PoolSize, c.Resources = d, 1, sandbox.Resources{Pids: 9}
	}}, more...)...)
	w.until("a sandbox is prepared", func() bool { return w.worker.Pooled() == 1 })
	return w, seen
}

// TestPreparedSandbox checks that a run uses the prepared sandbox with the limits
// of its definition, and that the worker then prepares another sandbox.
func TestPreparedSandbox(t *testing.T) {
	t.Parallel()
	w, seen := newPoolWorld(t, true)
	w.agent(`{"framework":"shell","resources":{"pids":20},"artifact":{"path":"/data"},"network":{"mode":"none"}}`)
	r := w.ended(w.create(stint.NewRun{Agent: "agent", ArtifactName: "results"}).ID)
	s := <-seen
	if r.Status != stint.Completed || !strings.HasPrefix(s.ID, stint.PrefixSandbox) {
		t.Fatalf("run status %s in sandbox %s, want completed in a prepared one", r.Status, s.ID)
	}
	if diff := cmp.Diff(sandbox.Resources{Pids: 20}, s.Resources); diff != "" {
		t.Errorf("limits (-want +got):\n%s", diff)
	}
	if want := []sandbox.Mount{{Source: s.Workspace, Target: "/data", Writable: true}}; !cmp.Equal(want, s.Mounts) {
		t.Errorf("mounts %v, want %v", s.Mounts, want)
	}
	if r.ArtifactVersion == nil {
		t.Error("the run has no artifact version")
	}
	w.until("the folder of the used sandbox is removed and another sandbox is prepared", func() bool {
		all, err := os.ReadDir(filepath.Dir(filepath.Dir(s.Workspace)))
		return err == nil && len(all) == 1 && all[0].Name() != s.ID
	})
}

// TestPreparedSandboxWithoutAttach checks that a run gets a new sandbox instead of the
// prepared sandbox if the isolator does not support Attach.
func TestPreparedSandboxWithoutAttach(t *testing.T) {
	t.Parallel()
	w, seen := newPoolWorld(t, false)
	w.agent(`{"framework":"shell","network":{"mode":"none"}}`)
	created := w.create(stint.NewRun{Agent: "agent", ArtifactName: "results"})
	r, s := w.ended(created.ID), <-seen
	if r.Status != stint.Completed || s.ID != created.ID || r.ArtifactVersion == nil {
		t.Errorf("run status %s in sandbox %s, artifact version %v", r.Status, s.ID, r.ArtifactVersion)
	}
}

// TestOtherIsolator checks that a run uses the isolator that its definition names.
func TestOtherIsolator(t *testing.T) {
	t.Parallel()
	ran := make(chan string, 1)
	gvisor := fake.New(func(_ context.Context, p *fake.Proc) sandbox.Exit { ran <- p.Spec.ID; return sandbox.Exit{} })
	w, _ := newPoolWorld(t, true, func(c *worker.Config) {
		c.Isolator = func(_ context.Context, name string) (sandbox.Driver, error) {
			if name == "gvisor" {
				return gvisor, nil
			}
			return nil, stint.InvalidParam("sandbox", "The sandbox %s is not available.", name)
		}
	})
	w.agent(`{"framework":"shell","sandbox":"gvisor","network":{"mode":"none"}}`)
	created := w.create(stint.NewRun{Agent: "agent"})
	if r := w.ended(created.ID); r.Status != stint.Completed || <-ran != created.ID {
		t.Errorf("run status %s, want completed in a sandbox of gvisor", r.Status)
	}
}
