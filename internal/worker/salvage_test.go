package worker_test

import (
	"context"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/framework"
	"github.com/stint-dev/stint/internal/sandbox"
	"github.com/stint-dev/stint/internal/sandbox/sandboxtest/fake"
	"github.com/stint-dev/stint/internal/store"
	"github.com/stint-dev/stint/internal/worker"
)

const acpAgent = `{"framework":"acp","command":["puppet"]}`

// leavingScript is a script whose first run reports a conversation, writes a file, closes
// written, and goes on until it is killed. Later runs send the file's content to seen.
func leavingScript(p *scriptedFramework, written chan struct{}, seen chan string) fake.Script {
	var runs atomic.Int64
	return func(ctx context.Context, b *fake.Proc) sandbox.Exit {
		path := filepath.Join(b.Spec.Workspace, "half.txt")
		if runs.Add(1) > 1 {
			content, _ := os.ReadFile(path)
			seen <- string(content)
			emit(b.Stdout, framework.Step{Ended: true})
			return sandbox.Exit{}
		}
		p.afterwards = framework.Conversation{ID: "native-7"}
		emit(b.Stdout, framework.Step{Events: []stint.OutputData{{Content: "begun\n", Stream: framework.Stdout}}})
		if err := os.WriteFile(path, []byte("half"), 0o600); err != nil {
			panic(err)
		}
		close(written)
		hang(ctx)
		return sandbox.Exit{Code: 137, Signal: 9, Cause: sandbox.Killed}
	}
}

// TestLostRunIsStored checks that a run whose worker stops, or loses its lease, gets its
// files and its conversation as a checkpoint from the next worker in the same folder, or
// from the same worker, and that the next run of the session waits for them.
func TestLostRunIsStored(t *testing.T) {
	t.Parallel()
	for name, lease := range map[string]bool{"the worker stops": false, "the lease is lost": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var losing atomic.Bool
			d := &hookedDispatcher{lease: 30 * time.Millisecond, onRenew: func() error {
				if losing.CompareAndSwap(true, false) {
					return store.ErrLeaseLost
				}
				return nil
			}}
			resumed := make(chan string, 8)
			p := &scriptedFramework{verdict: framework.Verdict{Completed: true}, prepared: func(in framework.Input) { resumed <- in.ResumeID() }}
			written, seen := make(chan struct{}), make(chan string, 1)
			script := leavingScript(p, written, seen)
			w := newWorld(t, script, withDispatcher(d), withFramework(p), func(c *worker.Config) {
				if !lease {
					c.Drain = time.Millisecond
				}
			})
			w.agent(acpAgent)
			lost := w.create(stint.NewRun{Agent: "agent", ArtifactName: "out"})
			<-written
			next := w.create(stint.NewRun{SessionID: lost.SessionID})
			if lease {
				held, err := w.store.Run(t.Context(), w.caller.OrgID, lost.ID)
				check(t, err)
				losing.Store(true)
				w.until("the worker has left the folder", func() bool {
					left, err := filepath.Glob(filepath.Join(w.dir, "worker", "aside", "*", "*"))
					return err == nil && len(left) == 1
				})
				check(t, w.store.EndWorker(t.Context(), held.WorkerID))
				_, err = w.local.Reap(t.Context())
				check(t, err)
			} else {
				w.stop()
				w.startWorker(script, w.dir, withFramework(p))
			}
			r := w.ended(lost.ID)
			w.until("the lost run has a checkpoint", func() bool {
				r = w.ended(lost.ID)
				return r.CheckpointID != nil
			})
			if *r.StatusReason != stint.ReasonWorkerLost || r.ArtifactVersion == nil {
				t.Errorf("the lost run: %v, version %v", *r.StatusReason, r.ArtifactVersion)
			}
			w.ended(next.ID)
			w.until("nothing is left aside", func() bool {
				left, err := filepath.Glob(filepath.Join(w.dir, "worker", "aside", "*"))
				return err == nil && len(left) == 0
			})
			<-resumed // of the lost run
			if id := <-resumed; id != "native-7" {
				t.Errorf("the next run resumes the conversation %q", id)
			}
			<-seen
			after := w.ended(w.create(stint.NewRun{CheckpointID: *r.CheckpointID}).ID)
			if content := <-seen; content != "half" {
				t.Errorf("a run from the checkpoint has the file %q and is %s", content, after.Status)
			}
		})
	}
}

// TestLostRunIsStoredAfterTemporaryFault checks that the state of a lost run is not removed
// because it could not be stored for the moment, for example on a full disk.
func TestLostRunIsStoredAfterTemporaryFault(t *testing.T) {
	t.Parallel()
	var tries atomic.Int64
	d := &hookedDispatcher{onAttach: func() error {
		if tries.Add(1) == 1 {
			return &stint.Error{Kind: stint.KindUnavailable, Code: stint.CodeUnavailable, Message: "The disk is full."}
		}
		return nil
	}}
	p := &scriptedFramework{verdict: framework.Verdict{Completed: true}}
	written := make(chan struct{})
	script := leavingScript(p, written, make(chan string, 1))
	w := newWorld(t, script, withFramework(p), func(c *worker.Config) { c.Drain = time.Millisecond })
	w.agent(acpAgent)
	lost := w.create(stint.NewRun{Agent: "agent"})
	<-written
	w.stop()
	w.startWorker(script, w.dir, withDispatcher(d), withFramework(p))
	w.ended(lost.ID)
	w.until("the lost run has a checkpoint", func() bool { return w.ended(lost.ID).CheckpointID != nil })
}
