package worker_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/feed"
	"github.com/stint-dev/stint/internal/framework"
	"github.com/stint-dev/stint/internal/sandbox"
	"github.com/stint-dev/stint/internal/sandbox/sandboxtest/fake"
	"github.com/stint-dev/stint/internal/worker"
	"github.com/stint-dev/stint/internal/worker/agentcli"
)

// recordingFramework is a framework with an agent that stores its conversation in
// .talker/sessions and prints "session" and the conversation's ID. Other output is text.
type recordingFramework struct{ framework.Command }

func (recordingFramework) Info() framework.Info { return framework.Info{Name: "talker"} }

func (recordingFramework) Prepare(in framework.Input) (framework.Plan, error) {
	resumed := "none"
	if in.Resume != nil {
		resumed = in.Resume.ID
	}
	return framework.Plan{
		Argv: []string{"talker"}, Env: map[string]string{"RESUME": resumed},
		State: framework.State{
			Keep: []string{".talker/sessions/*/*.jsonl", ".talker/memory"}, Drop: []string{".talker/memory/cache"},
			Check: func(name string, content []byte) error {
				for i, line := range strings.Split(strings.TrimSpace(string(content)), "\n") {
					if strings.HasSuffix(name, ".jsonl") && !json.Valid([]byte(line)) {
						return fmt.Errorf("line %d is not JSON", i+1)
					}
				}
				return nil
			},
		},
	}, nil
}

func (recordingFramework) NewDecoder(in framework.Input) framework.Decoder {
	return &recordingDecoder{Decoder: framework.Command{}.NewDecoder(in)}
}

type recordingDecoder struct {
	framework.Decoder
	id string
}

func (d *recordingDecoder) Write(stream string, p []byte) framework.Step {
	if _, id, ok := strings.Cut(string(p), "session "); ok {
		d.id = strings.TrimSpace(id)
	}
	return d.Decoder.Write(stream, p)
}

func (d *recordingDecoder) Conversation() framework.Conversation {
	return framework.Conversation{ID: d.id}
}

type installedVersion string

func (v installedVersion) Find(context.Context, framework.Info, *stint.Definition) (agentcli.CLI, error) {
	return agentcli.CLI{Program: framework.Program{Path: "/bin/talker", Version: string(v)}}, nil
}

func withRecording(version string) change {
	return func(c *worker.Config) {
		c.AgentCLIs = installedVersion(version)
		c.Frameworks = func(*stint.Definition) (framework.Framework, error) { return recordingFramework{}, nil }
	}
}

// home returns the digest and the content of the home folder in the checkpoint of a run.
// files contains the content of each file, or the kind of each other entry, by path.
func (w *world) home(r stint.Run) (digest string, files map[string]string) {
	w.t.Helper()
	c, err := w.store.Checkpoint(w.t.Context(), w.caller.OrgID, *r.CheckpointID)
	check(w.t, err)
	list, _, err := w.library.List(w.t.Context(), w.caller.OrgID, c.HomeDigest, "", "", 1000)
	check(w.t, err)
	files = map[string]string{}
	for _, f := range list {
		if f.Kind != "file" {
			files[f.Path] = f.Kind
			continue
		}
		r, _, err := w.library.Open(w.t.Context(), w.caller.OrgID, c.HomeDigest, f.Path)
		check(w.t, err)
		b, err := io.ReadAll(r)
		check(w.t, errors.Join(err, r.Close()))
		files[f.Path] = string(b)
	}
	return c.HomeDigest, files
}

// put appends text to a file in the agent's home folder. It creates the file if it does
// not exist.
func put(t *testing.T, p *fake.Proc, name, text string) {
	t.Helper()
	name = filepath.Join(p.Spec.Home, name)
	check(t, os.MkdirAll(filepath.Dir(name), 0o700))
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	check(t, err)
	_, err = f.WriteString(text)
	check(t, errors.Join(err, f.Close()))
}

func prompt(p *fake.Proc) string {
	b, _ := p.File("prompt")
	return string(b)
}

const session = ".talker/sessions/a/s.jsonl"

// recordingScript returns an agent with actions that depend on the prompt. By default,
// the agent appends the prompt to its conversation.
func recordingScript(t *testing.T) fake.Script {
	return func(_ context.Context, p *fake.Proc) sandbox.Exit {
		for _, kv := range p.Command.Env {
			if resumed, ok := strings.CutPrefix(kv, "RESUME="); ok {
				write(p.Stdout, "resumed "+resumed+"\n")
			}
		}
		if _, err := os.Lstat(filepath.Join(p.Spec.Home, ".stint-conversation.json")); err == nil {
			write(p.Stdout, "the record is to be seen\n")
		}
		switch prompt(p) {
		case "crash":
			return sandbox.Exit{Code: 1}
		case "litter":
			put(t, p, ".talker/token", "secret")
			put(t, p, ".talker/memory/note", "remember")
			put(t, p, ".talker/memory/cache/x", "heavy")
			put(t, p, ".talker/empty/x", "x")
			put(t, p, ".cache/npm/x", "x")
			put(t, p, ".stint-conversation.json/inner", `{"framework":"talker","id":"forged"}`)
		case "damage":
			put(t, p, session, "{\"n\":2}\n{\"n\":\n")
		case "several":
			put(t, p, session, "{}\n")
			put(t, p, ".talker/memory/a", "1")
			put(t, p, ".talker/memory/b", "2")
		case "look":
			b, _ := os.ReadFile(filepath.Join(p.Spec.Home, session))
			write(p.Stdout, string(b))
			return sandbox.Exit{Code: 1}
		default:
			put(t, p, session, `{"said":"`+prompt(p)+`"}`+"\n")
		}
		write(p.Stdout, "session 7\n")
		return sandbox.Exit{}
	}
}

func TestCheckpointKeepsOnlyConversation(t *testing.T) {
	t.Parallel()
	w := newWorld(t, recordingScript(t), withRecording("1.0.0"))
	w.agent(`{"framework":"command","command":["talker"]}`)
	first := w.ended(w.create(stint.NewRun{Agent: "agent", Prompt: "one"}).ID)
	second := w.ended(w.create(stint.NewRun{SessionID: first.SessionID, Prompt: "litter"}).ID)
	digest, files := w.home(second)
	want := map[string]string{
		".stint-conversation.json": `{"framework":"command","version":"1.0.0","id":"7"}`,
		".talker":                  "dir", ".talker/memory": "dir", ".talker/memory/note": "remember",
		".talker/sessions": "dir", ".talker/sessions/a": "dir", session: `{"said":"one"}` + "\n",
	}
	if diff := cmp.Diff(want, files); diff != "" {
		t.Errorf("home (-want +got):\n%s", diff)
	}
	third := w.ended(w.create(stint.NewRun{SessionID: first.SessionID, Prompt: "look"}).ID)
	if got := w.transcript(third.ID); got != "resumed 7\n{\"said\":\"one\"}\n" {
		t.Errorf("the third run wrote %q", got)
	}
	// The third run did not print the ID of its conversation. The conversation is still
	// stored, without changes.
	if again, _ := w.home(third); again != digest {
		t.Errorf("the same conversation is snapshot %s, then %s", digest, again)
	}
}

func TestDamagedConversation(t *testing.T) {
	t.Parallel()
	w := newWorld(t, recordingScript(t), withRecording("1.0.0"))
	w.agent(`{"framework":"command","command":["talker"]}`)
	first := w.ended(w.create(stint.NewRun{Agent: "agent", Prompt: "one"}).ID)
	w.ended(w.create(stint.NewRun{SessionID: first.SessionID, Prompt: "damage"}).ID)
	r := w.ended(w.create(stint.NewRun{SessionID: first.SessionID, Prompt: "three"}).ID)
	const want = "The conversation of this session cannot be read: " + session +
		", line 3 is not JSON. Resume an earlier checkpoint (stint resume CHECKPOINT PROMPT) or start anew."
	if r.Status != stint.Failed || *r.StatusReason != stint.ReasonSetupFailed || *r.Error != want || w.transcript(r.ID) != "" {
		t.Errorf("the run is %s, %v: %q", r.Status, *r.StatusReason, *r.Error)
	}
	r = w.ended(w.create(stint.NewRun{CheckpointID: *first.CheckpointID, Prompt: "again"}).ID)
	if _, files := w.home(r); r.Status != stint.Completed || files[session] != "{\"said\":\"one\"}\n{\"said\":\"again\"}\n" {
		t.Errorf("the run of the earlier checkpoint is %s and left %q", r.Status, files[session])
	}
}

// TestCancelWhileChecking checks that a run that is cancelled while the files of its
// conversation are checked does not check the next file.
func TestCancelWhileChecking(t *testing.T) {
	t.Parallel()
	f := &slowFramework{life: make(chan context.Context, 8), reading: make(chan struct{}, 8)}
	w := newWorld(t, recordingScript(t), func(c *worker.Config) {
		c.AgentCLIs = f
		c.Frameworks = func(*stint.Definition) (framework.Framework, error) { return f, nil }
	})
	w.agent(`{"framework":"command","command":["talker"]}`)
	first := w.ended(w.create(stint.NewRun{Agent: "agent", Prompt: "several"}).ID)
	<-f.life
	r := w.create(stint.NewRun{SessionID: first.SessionID, Prompt: "again"})
	<-f.reading
	_, err := w.runs.Cancel(t.Context(), w.caller, r.ID)
	check(t, err)
	w.stop()
	if n := f.read.Load(); n != 1 {
		t.Errorf("%d files were read, want 1", n)
	}
}

// slowFramework is a recordingFramework in which the check of the first file of a
// conversation blocks until the context of the run ends.
type slowFramework struct {
	recordingFramework
	life    chan context.Context // receives the context of each run
	reading chan struct{}        // receives a value at the start of each check
	read    atomic.Int64         // number of checked files
}

func (s *slowFramework) Find(ctx context.Context, _ framework.Info, _ *stint.Definition) (agentcli.CLI, error) {
	s.life <- ctx
	return agentcli.CLI{}, nil
}

func (s *slowFramework) Prepare(in framework.Input) (framework.Plan, error) {
	p, err := s.recordingFramework.Prepare(in)
	p.State.Check = func(string, []byte) error {
		s.reading <- struct{}{}
		if s.read.Add(1) == 1 {
			<-(<-s.life).Done()
		}
		return nil
	}
	return p, err
}

func TestConcurrentForks(t *testing.T) {
	t.Parallel()
	w := newWorld(t, recordingScript(t), withRecording("1.0.0"))
	w.agent(`{"framework":"command","command":["talker"]}`)
	first := w.ended(w.create(stint.NewRun{Agent: "agent", Prompt: "one"}).ID)
	forks := make([]string, 3)
	var wg sync.WaitGroup
	for i := range forks {
		forks[i] = w.create(stint.NewRun{CheckpointID: *first.CheckpointID, Prompt: fmt.Sprint("fork ", i)}).ID
	}
	for i, id := range forks {
		wg.Go(func() {
			r := w.ended(id)
			want := fmt.Sprintf("{\"said\":\"one\"}\n{\"said\":\"fork %d\"}\n", i)
			if _, files := w.home(r); files[session] != want || r.SessionID == first.SessionID {
				t.Errorf("fork %d left %q in session %s", i, files[session], r.SessionID)
			}
		})
	}
	wg.Wait()
}

func TestNewerProgramIsLogged(t *testing.T) {
	t.Parallel()
	w := newWorld(t, recordingScript(t), withRecording("1.0.0"))
	w.agent(`{"framework":"command","command":["talker"]}`)
	first := w.ended(w.create(stint.NewRun{Agent: "agent", Prompt: "one"}).ID)
	w.stop()
	w.startWorker(recordingScript(t), w.dir, withRecording("1.1.0"))
	second := w.ended(w.create(stint.NewRun{SessionID: first.SessionID, Prompt: "two"}).ID)
	const want = "The session was stored with version 1.0.0 of command and continues with 1.1.0."
	if !strings.Contains(w.systemLog(second.ID), want) {
		t.Errorf("the log lacks %q:\n%s", want, w.systemLog(second.ID))
	}
}

// TestCrashKeepsConversation checks that a session keeps its conversation if the agent of
// a run fails before it prints the ID of the conversation.
func TestCrashKeepsConversation(t *testing.T) {
	t.Parallel()
	w := newWorld(t, recordingScript(t), withRecording("1.0.0"))
	w.agent(`{"framework":"command","command":["talker"]}`)
	first := w.ended(w.create(stint.NewRun{Agent: "agent", Prompt: "one"}).ID)
	w.ended(w.create(stint.NewRun{SessionID: first.SessionID, Prompt: "crash"}).ID)
	third := w.ended(w.create(stint.NewRun{SessionID: first.SessionID, Prompt: "look"}).ID)
	if got := w.transcript(third.ID); got != "resumed 7\n{\"said\":\"one\"}\n" {
		t.Errorf("the third run wrote %q", got)
	}
}

// systemLog returns the level and the message of each entry in the system log of a run,
// one entry per line.
func (w *world) systemLog(id string) string {
	w.t.Helper()
	entries, _, err := w.feed.Logs(w.t.Context(), id, feed.LogQuery{Type: stint.LogSystem, Limit: 1000})
	check(w.t, err)
	var b strings.Builder
	for _, e := range entries {
		fmt.Fprintln(&b, e.Level, e.Message)
	}
	return b.String()
}
