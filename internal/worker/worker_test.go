package worker_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/feed"
	"github.com/stint-dev/stint/internal/sandbox"
	"github.com/stint-dev/stint/internal/sandbox/sandboxtest/fake"
	"github.com/stint-dev/stint/internal/store"
	"github.com/stint-dev/stint/internal/worker"
)

const shell = `{"framework":"shell"}`

func TestRunCompletes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(_ context.Context, p *fake.Proc) sandbox.Exit {
		prompt, _ := p.File("prompt")
		write(p.Stdout, "prompt: "+string(prompt)+"\n")
		write(p.Stderr, "careful\n")
		check(t, os.WriteFile(filepath.Join(p.Spec.Workspace, "out.txt"), []byte("result"), 0o600))
		return sandbox.Exit{}
	})
	w.agent(shell)
	created := w.create(stint.NewRun{Agent: "agent", ArtifactName: "results"})
	if created.Status != stint.Pending || created.ArtifactName != nil || created.Volumes != nil {
		t.Errorf("created as %+v", created)
	}
	r := w.ended(created.ID)
	if r.Status != stint.Completed || r.Error != nil || r.StatusReason != nil || *r.ExitCode != 0 || r.ExecutionTimeMs == nil {
		t.Errorf("ended as %+v", r)
	}
	if r.ArtifactName == nil || *r.ArtifactName != "results" || r.ArtifactVersion == nil || !strings.HasPrefix(*r.ArtifactVersion, "v1_") || r.CheckpointID == nil {
		t.Errorf("artifact %v version %v checkpoint %v", r.ArtifactName, r.ArtifactVersion, r.CheckpointID)
	}
	if diff := cmp.Diff("prompt: do it\ncareful\n", w.transcript(r.ID)); diff != "" {
		t.Errorf("transcript (-want +got):\n%s", diff)
	}
	kinds := ""
	for i, e := range w.events(r.ID) {
		if e.Seq != int64(i+1) {
			t.Errorf("event %d has number %d", i+1, e.Seq)
		}
		kinds += string(e.Type) + " "
	}
	if !strings.HasPrefix(kinds, "status status output ") || !strings.HasSuffix(kinds, " status complete ") {
		t.Errorf("events: %s", kinds)
	}
	logs, _, err := w.feed.Logs(t.Context(), r.ID, feed.LogQuery{Type: stint.LogSystem, Limit: 100})
	check(t, err)
	var said []string
	for _, e := range logs {
		said = append(said, e.Message)
	}
	if diff := cmp.Diff([]string{
		"Workspace, home and volumes are ready.", "The sandbox is ready.",
		"The agent asks for the network mode 'public', but sandboxes of this server have no network.", "The agent's command started.",
		"The agent's command ended.", "Workspace and home are stored.",
	}, said); diff != "" {
		t.Errorf("system log (-want +got):\n%s", diff)
	}
	m, err := w.runs.Metrics(t.Context(), w.caller, r.ID)
	if err != nil || len(m.Data) == 0 || m.Summary.TotalDurationMs == nil {
		t.Errorf("metrics %+v, error %v", m, err)
	}
}

func TestEndings(t *testing.T) {
	t.Parallel()
	flood := func(_ context.Context, p *fake.Proc) sandbox.Exit {
		for range 200 {
			write(p.Stdout, strings.Repeat("x", 1<<10))
		}
		<-p.Term
		return sandbox.Exit{Code: 143, Signal: 15, Cause: sandbox.Killed}
	}
	tests := map[string]struct {
		definition string
		script     fake.Script
		status     stint.Status
		reason     stint.Reason
		message    string
	}{
		"exit code": {shell, func(_ context.Context, p *fake.Proc) sandbox.Exit {
			write(p.Stderr, "boom: no such table\n")
			return sandbox.Exit{Code: 3}
		}, stint.Failed, stint.ReasonExitCode, "boom: no such table"},
		"signal": {shell, func(context.Context, *fake.Proc) sandbox.Exit {
			return sandbox.Exit{Code: 139, Signal: 11, Cause: sandbox.Signalled}
		}, stint.Failed, stint.ReasonExitCode, "signal 11"},
		"out of memory": {shell, func(context.Context, *fake.Proc) sandbox.Exit {
			return sandbox.Exit{Code: 137, Cause: sandbox.OOMKilled}
		}, stint.Failed, stint.ReasonOutOfMemory, "memory"},
		"disk full": {shell, func(context.Context, *fake.Proc) sandbox.Exit {
			return sandbox.Exit{Code: 137, Cause: sandbox.DiskFull}
		}, stint.Failed, stint.ReasonDiskFull, "disk"},
		"lost": {shell, func(context.Context, *fake.Proc) sandbox.Exit {
			return sandbox.Exit{Code: -1, Cause: sandbox.Lost}
		}, stint.Failed, stint.ReasonSandboxError, "sandbox"},
		"output limit": {`{"framework":"shell","limits":{"outputBytes":"64KiB"}}`, flood, stint.Failed, stint.ReasonOutputLimit, "64KiB"},
		"time limit": {`{"framework":"shell","timeout":"1s"}`, func(ctx context.Context, _ *fake.Proc) sandbox.Exit {
			<-ctx.Done() // ignores SIGTERM
			return sandbox.Exit{Code: 137, Signal: 9, Cause: sandbox.Killed}
		}, stint.TimedOut, stint.ReasonTimeLimit, "1s"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { // the fake clock does not advance while a slow host works
				w := newWorld(t, tt.script)
				w.agent(tt.definition)
				r := w.ended(w.create(stint.NewRun{Agent: "agent"}).ID)
				if r.Status != tt.status || r.StatusReason == nil || *r.StatusReason != tt.reason {
					t.Errorf("ended %s, %v; want %s, %s", r.Status, r.StatusReason, tt.status, tt.reason)
				}
				text := r.Error
				if r.Status != stint.Failed {
					text = r.StatusMessage
				}
				if text == nil || !strings.Contains(*text, tt.message) {
					t.Errorf("error %v, want one with %q", text, tt.message)
				}
				if (r.Error != nil) != (r.Status == stint.Failed) || r.StatusMessage == nil || strings.Contains(*r.StatusMessage, "\n") {
					t.Errorf("error %v and message %v of a run that ended %s", r.Error, r.StatusMessage, r.Status)
				}
				if r.CheckpointID == nil {
					t.Error("no checkpoint was taken")
				}
			})
		})
	}
}

func TestCancelWinsAndKeepsState(t *testing.T) {
	t.Parallel()
	started := make(chan struct{})
	w := newWorld(t, func(_ context.Context, p *fake.Proc) sandbox.Exit {
		check(t, os.WriteFile(filepath.Join(p.Spec.Workspace, "half.txt"), []byte("half"), 0o600))
		close(started)
		<-p.Term
		write(p.Stdout, "too late\n")
		return sandbox.Exit{Code: 143, Signal: 15, Cause: sandbox.Killed}
	})
	w.agent(shell)
	r := w.create(stint.NewRun{Agent: "agent", ArtifactName: "halves"})
	<-started
	cancelled, err := w.runs.Cancel(t.Context(), w.caller, r.ID)
	check(t, err)
	if cancelled.Status != stint.Cancelled {
		t.Fatalf("cancel answered %s", cancelled.Status)
	}
	w.until("the checkpoint of the cancelled run", func() bool {
		got, err := w.runs.Get(t.Context(), w.caller, r.ID)
		check(t, err)
		return got.CheckpointID != nil && got.ArtifactVersion != nil
	})
	if got := w.transcript(r.ID); got != "" {
		t.Errorf("output after the end: %q", got)
	}
	tree, err := w.store.FileSetByName(t.Context(), w.caller.OrgID, stint.Artifacts, "halves")
	check(t, err)
	if tree.CurrentVersionID != nil {
		t.Error("a cancelled run moved the head of its artifact")
	}
	if _, err := w.runs.Cancel(t.Context(), w.caller, r.ID); stint.KindOf(err) != stint.KindInvalid {
		t.Errorf("second cancel: %v", err)
	}
}

func TestSecretsAreMaskedAcrossWrites(t *testing.T) {
	t.Parallel()
	const value = "s3cr3t-hunter2"
	w := newWorld(t, func(_ context.Context, p *fake.Proc) sandbox.Exit {
		for _, e := range p.Command.Env {
			if strings.HasPrefix(e, "KEY=") {
				for _, b := range []byte(e + "\n") {
					write(p.Stdout, string(b))
				}
			}
		}
		write(p.Stderr, "failed with "+value[:5])
		write(p.Stderr, value[5:]+"\n")
		return sandbox.Exit{Code: 1}
	})
	w.agent(shell)
	r := w.ended(w.create(stint.NewRun{Agent: "agent", Secrets: map[string]string{"KEY": value}}).ID)
	if got := w.transcript(r.ID); !strings.Contains(got, "KEY=***\n") || !strings.Contains(got, "failed with ***\n") || strings.Contains(got, "hunter2") {
		t.Errorf("transcript %q", got)
	}
	if strings.Contains(*r.Error, "hunter2") || !strings.Contains(*r.Error, "failed with ***") {
		t.Errorf("error %q", *r.Error)
	}
}

func TestEnvironmentOrder(t *testing.T) {
	t.Parallel()
	var env atomic.Value
	w := newWorld(t, func(_ context.Context, p *fake.Proc) sandbox.Exit {
		env.Store(p.Command.Env)
		return sandbox.Exit{}
	})
	w.agent(`{"framework":"shell","environment":{"A":"definition","B":"definition","GREETING":"hi ${{ vars.WHO }} ${{ secrets.S }}"}}`)
	r := w.ended(w.create(stint.NewRun{Agent: "agent", Variables: map[string]string{"WHO": "ann", "B": "variable", "C": "variable"}, Secrets: map[string]string{"S": "secret", "C": "secret"}}).ID)
	got := strings.Join(env.Load().([]string), "\n")
	for _, want := range []string{"A=definition", "B=variable", "C=secret", "GREETING=hi ann secret", "HOME=/home/agent", "STINT_RUN_ID=" + r.ID, "STINT_PROMPT_FILE=/run/stint/prompt"} {
		if !strings.Contains("\n"+got+"\n", "\n"+want+"\n") {
			t.Errorf("environment lacks %q:\n%s", want, got)
		}
	}
}

// TestUnavailableFeatures checks that a run fails and its agent does not start if the
// worker lacks a feature that the definition requests.
func TestUnavailableFeatures(t *testing.T) {
	t.Parallel()
	for name, definition := range map[string]string{
		"sandbox":   `{"framework":"shell","sandbox":"gvisor"}`,
		"image":     `{"framework":"shell","image":"debian:12"}`,
		"framework": `{"framework":"codex"}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, func(context.Context, *fake.Proc) sandbox.Exit {
				t.Error("the agent was started")
				return sandbox.Exit{}
			})
			w.agent(definition)
			r := w.ended(w.create(stint.NewRun{Agent: "agent"}).ID)
			if r.Status != stint.Failed || *r.StatusReason != stint.ReasonSetupFailed || !strings.Contains(*r.Error, name) {
				t.Errorf("ended %s, %v, %v", r.Status, r.StatusReason, r.Error)
			}
		})
	}
}

// TestPlacement checks that a run waits if the worker lacks a label that the definition
// requires, and that later runs do not wait for it.
func TestPlacement(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(context.Context, *fake.Proc) sandbox.Exit { return sandbox.Exit{} })
	a := w.agent(`{"framework":"shell","placement":{"labels":{"gpu":"yes"}}}`)
	waiting := w.create(stint.NewRun{Agent: "agent"})
	_, _, err := w.store.AddAgentVersion(t.Context(), w.caller.OrgID, store.AgentVersion{Digest: "free", CreatedBy: "user:ann", AgentVersion: stint.AgentVersion{
		ID: w.ids.New(stint.PrefixAgentVersion), AgentID: a.ID, CreatedAt: a.CreatedAt, Definition: json.RawMessage(`{"framework":"shell"}`),
	}})
	check(t, err)
	if r := w.ended(w.create(stint.NewRun{Agent: "agent"}).ID); r.Status != stint.Completed {
		t.Errorf("the run without labels ended as %s", r.Status)
	}
	r, err := w.store.Run(t.Context(), w.caller.OrgID, waiting.ID)
	check(t, err)
	if r.Status != stint.Pending {
		t.Errorf("the run with labels is %s", r.Status)
	}
}

func TestBrokeredSecretsAreNotInSandbox(t *testing.T) {
	t.Parallel()
	var env atomic.Value
	w := newWorld(t, func(_ context.Context, p *fake.Proc) sandbox.Exit {
		env.Store(strings.Join(p.Command.Env, "\n"))
		return sandbox.Exit{}
	})
	w.agent(`{"framework":"shell","environment":{"AUTH":"Bearer ${{ secrets.KEY }}"},"secrets":{"KEY":{"hosts":["api.example.com"]}}}`)
	w.ended(w.create(stint.NewRun{Agent: "agent", Secrets: map[string]string{"KEY": "real-value-1234"}}).ID)
	if got := env.Load().(string); strings.Contains(got, "real-value") || !strings.Contains(got, "KEY=stint-brokered-KEY") || !strings.Contains(got, "AUTH=Bearer stint-brokered-KEY") {
		t.Errorf("environment:\n%s", got)
	}
}

// TestSessionsAndCheckpoints checks that a run that continues a session, and a run that
// resumes an earlier checkpoint, begin with the home folder and workspace of the earlier
// run.
func TestSessionsAndCheckpoints(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(_ context.Context, p *fake.Proc) sandbox.Exit {
		prompt, _ := p.File("prompt")
		for _, dir := range []string{p.Spec.Home, p.Spec.Workspace} {
			name := filepath.Join(dir, "history")
			before, _ := os.ReadFile(name)
			after := append(before, prompt...)
			check(t, os.WriteFile(name, after, 0o600))
			write(p.Stdout, string(after)+"\n")
		}
		return sandbox.Exit{}
	})
	w.agent(shell)
	first := w.ended(w.create(stint.NewRun{Agent: "agent", Prompt: "1"}).ID)
	second := w.ended(w.create(stint.NewRun{SessionID: first.SessionID, Prompt: "2"}).ID)
	if got := w.transcript(second.ID); got != "12\n12\n" || second.SessionID != first.SessionID {
		t.Errorf("continued run wrote %q in session %s", got, second.SessionID)
	}
	forked := w.ended(w.create(stint.NewRun{CheckpointID: *first.CheckpointID, Prompt: "3"}).ID)
	if got := w.transcript(forked.ID); got != "13\n13\n" {
		t.Errorf("resumed run wrote %q", got)
	}
	if forked.SessionID == first.SessionID || forked.ParentRunID == nil || *forked.ParentRunID != first.ID {
		t.Errorf("resumed run is in session %s with parent %v", forked.SessionID, forked.ParentRunID)
	}
}

func TestSessionOrder(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var order []string
	running := 0
	w := newWorld(t, func(_ context.Context, p *fake.Proc) sandbox.Exit {
		prompt, _ := p.File("prompt")
		mu.Lock()
		running++
		order = append(order, fmt.Sprintf("%s/%d", prompt, running))
		mu.Unlock()
		<-time.After(2 * time.Millisecond)
		mu.Lock()
		running--
		mu.Unlock()
		return sandbox.Exit{}
	})
	w.agent(shell)
	first := w.create(stint.NewRun{Agent: "agent", Prompt: "0"})
	var want []string
	var last stint.Run
	for i := range 10 {
		want = append(want, fmt.Sprintf("%d/1", i))
		if i > 0 {
			last = w.create(stint.NewRun{SessionID: first.SessionID, Prompt: fmt.Sprint(i)})
		}
	}
	w.ended(last.ID)
	if diff := cmp.Diff(want, order); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
}

func TestDrain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		started := make(chan string, 2)
		w := newWorld(t, func(ctx context.Context, p *fake.Proc) sandbox.Exit {
			prompt, _ := p.File("prompt")
			started <- string(prompt)
			if string(prompt) == "quick" {
				<-time.After(50 * time.Millisecond)
				return sandbox.Exit{}
			}
			<-ctx.Done()
			return sandbox.Exit{Code: 137, Signal: 9, Cause: sandbox.Killed}
		}, func(c *worker.Config) { c.Drain = 500 * time.Millisecond })
		w.agent(shell)
		quick := w.create(stint.NewRun{Agent: "agent", Prompt: "quick"})
		stuck := w.create(stint.NewRun{Agent: "agent", Prompt: "stuck"})
		<-started
		<-started
		w.stop()
		if r := w.ended(quick.ID); r.Status != stint.Completed {
			t.Errorf("the run that ends within the drain time is %s", r.Status)
		}
		if r := w.ended(stuck.ID); r.Status != stint.Failed || r.StatusReason == nil || *r.StatusReason != stint.ReasonWorkerLost {
			t.Errorf("the other run is %s, %v", r.Status, r.StatusReason)
		}
	})
}

func TestCapacity(t *testing.T) {
	t.Parallel()
	var now, most atomic.Int64
	w := newWorld(t, func(_ context.Context, p *fake.Proc) sandbox.Exit {
		n := now.Add(1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		write(p.Stdout, "hello\n")
		now.Add(-1)
		return sandbox.Exit{}
	}, func(c *worker.Config) { c.Capacity = 4 })
	w.agent(shell)
	ids := make([]string, 100)
	for i := range ids {
		ids[i] = w.create(stint.NewRun{Agent: "agent"}).ID
	}
	for _, id := range ids {
		if r := w.ended(id); r.Status != stint.Completed {
			t.Errorf("run %s is %s", id, r.Status)
		}
	}
	if most.Load() > 4 {
		t.Errorf("%d runs at once, capacity 4", most.Load())
	}
}

// TestFlood checks that all bytes of a large output are stored in the right order.
func TestFlood(t *testing.T) {
	t.Parallel()
	var want strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&want, "line %d of a flood\n", i)
	}
	w := newWorld(t, func(_ context.Context, p *fake.Proc) sandbox.Exit {
		text := want.String()
		for i := 0; len(text) > 0; i++ {
			n := min(len(text), 1+i*37%5000)
			write(p.Stdout, text[:n])
			text = text[n:]
		}
		return sandbox.Exit{}
	})
	w.agent(shell)
	r := w.ended(w.create(stint.NewRun{Agent: "agent"}).ID)
	if got := w.transcript(r.ID); got != want.String() {
		t.Errorf("transcript has %d bytes, want %d", len(got), want.Len())
	}
}
