package agents_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/client"
	"github.com/stint-dev/stint/e2e/installation"
	"github.com/stint-dev/stint/internal/testkit/agentstest"
	"github.com/stint-dev/stint/internal/testkit/modeltest"
)

const (
	// waitLimit is the maximum time to wait for an event.
	waitLimit = 100 * time.Second
	// modelKey is the only key that the model accepts.
	modelKey = "sk-live-3f9a1c77d2e84b06"
	model    = "mock-large"
)

// object is a JSON object.
type object = map[string]any

// kind is a kind of agent: a framework with a provider of its model.
type kind struct {
	name       string
	dialect    string // protocol of its model calls
	definition func(m *modeltest.Server) object
}

var kinds = []kind{
	{"claude-code", modeltest.Anthropic, func(m *modeltest.Server) object {
		return object{"framework": "claude-code", "provider": provider("anthropic", onHost(m.URL))}
	}},
	{"codex", modeltest.Responses, func(m *modeltest.Server) object {
		return object{"framework": "codex", "provider": provider("openai-responses", onHost(m.URL)+"/v1")}
	}},
	{"acp", modeltest.Anthropic, func(m *modeltest.Server) object {
		return object{"framework": "acp", "command": []string{"claude-agent-acp"}, "provider": provider("anthropic", onHost(m.URL))}
	}},
	{"assistant", modeltest.Chat, func(m *modeltest.Server) object {
		return object{"framework": "assistant", "provider": provider("openai-chat", onHost(m.URL)+"/v1")}
	}},
}

func provider(kind, at string) object {
	return object{"type": kind, "baseUrl": at, "apiKey": object{"secret": "MODEL_KEY"}}
}

// onHost replaces 127.0.0.1 in a URL by the host name at which sandboxes reach the
// loopback interface of this machine.
func onHost(at string) string { return strings.Replace(at, "127.0.0.1", stint.HostAlias, 1) }

// host is an installation with the agents' programs.
type host struct{ *installation.Host }

// serve starts a server that runs the real programs of the agents.
func serve(t *testing.T) *host {
	t.Helper()
	return serveWith(t,
		"STINT_CLAUDE_CODE_BIN="+agentstest.Claude(t), "STINT_CODEX_BIN="+agentstest.Codex(t),
		"PATH="+filepath.Join(agentstest.Folder(t), "node_modules/.bin")+":"+os.Getenv("PATH"))
}

// serveWith starts a server with additional environment variables.
func serveWith(t *testing.T, env ...string) *host {
	t.Helper()
	h := &host{installation.New(t, "--isolation", "namespace", "--max-depth", "1")}
	h.Env = env
	h.Start()
	return h
}

// tenant is an organisation, the model server that only its runs use, and the kind of
// agent under test.
type tenant struct {
	*testing.T
	host   *host
	client *client.Client
	kind   kind
	model  *modeltest.Server
}

// organisations counts the organisations, to give each a unique name.
var organisations atomic.Int64

func (h *host) tenant(t *testing.T, k kind) *tenant {
	t.Helper()
	org := fmt.Sprintf("org-%d", organisations.Add(1))
	m := modeltest.StartWith(t, modeltest.Options{Key: modelKey, Models: []string{model}})
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("model calls:\n%s", modelCalls(m))
		}
	})
	return &tenant{t, h, h.Login(t, org), k, m}
}

// agent creates an agent. more contains further members of its definition, which
// replace the default ones.
func (w *tenant) agent(name string, more object) {
	w.Helper()
	d := w.definition(name)
	maps.Copy(d, more)
	w.push(d)
}

// definition returns a definition of the tenant's framework.
func (w *tenant) definition(name string) object {
	d := object{
		"name": name, "model": model, "artifact": object{},
		"network": object{"mode": "restricted", "allow": []string{hostOf(onHost(w.model.URL))}},
	}
	maps.Copy(d, w.kind.definition(w.model))
	return d
}

func (w *tenant) push(d object) {
	w.Helper()
	installation.Check(w, w.tryPush(d))
}

func (w *tenant) tryPush(d object) error {
	w.Helper()
	raw, err := json.Marshal(d)
	installation.Check(w, err)
	_, err = w.client.Agents.Create(w.Context(), raw)
	return err
}

func hostOf(at string) string {
	u, err := url.Parse(at)
	if err != nil {
		panic(err)
	}
	return u.Host
}

// create creates a run. If n has no secrets, the run gets the key of the model.
func (w *tenant) create(n stint.NewRun) *stint.Run {
	w.Helper()
	if n.Secrets == nil {
		n.Secrets = map[string]string{"MODEL_KEY": modelKey}
	}
	r, err := w.client.Runs.Create(w.Context(), n, nil)
	installation.Check(w, err)
	return r
}

// ended waits until a run has ended, and returns the run.
func (w *tenant) ended(id string) *stint.Run {
	w.Helper()
	return installation.Ended(w, w.client, id)
}

// run creates a run, waits until it has ended, and returns it. It ends the test if the
// run did not complete.
func (w *tenant) run(n stint.NewRun) *stint.Run {
	w.Helper()
	r := w.ended(w.create(n).ID)
	if r.Status != stint.Completed {
		w.Fatalf("%s ended %s (%s): %s; %s", r.ID, r.Status, installation.Value(r.StatusReason), installation.Value(r.Error), w.story(r.ID))
	}
	return r
}

// fails creates a run, waits until it has failed with an error that contains the words,
// and returns it. The comparison of words ignores case.
func (w *tenant) fails(n stint.NewRun, reason stint.Reason, words ...string) *stint.Run {
	w.Helper()
	return w.failed(w.create(n), reason, words...)
}

func (w *tenant) failed(r *stint.Run, reason stint.Reason, words ...string) *stint.Run {
	w.Helper()
	r = w.ended(r.ID)
	if r.Status != stint.Failed || installation.Value(r.StatusReason) != reason {
		w.Fatalf("%s ended %s (%s), not failed (%s): %s; %s", r.ID, r.Status, installation.Value(r.StatusReason), reason, installation.Value(r.Error), w.story(r.ID))
	}
	for _, word := range words {
		if !strings.Contains(strings.ToLower(installation.Value(r.Error)), strings.ToLower(word)) {
			w.Errorf("the error lacks %q: %s", word, installation.Value(r.Error))
		}
	}
	return r
}

// story returns the events and logs of a run for a failure message.
func (w *tenant) story(id string) string {
	w.Helper()
	return installation.Story(w, w.client, id)
}

// modelCalls returns a description of the calls that the model received, for a failure
// message.
func modelCalls(m *modeltest.Server) string {
	var b strings.Builder
	for _, r := range m.Requests() {
		fmt.Fprintf(&b, "  model call %s %s %s key=%s %d turns, users=%s\n", r.Dialect, r.Path, r.Model, r.Key, r.UserTurns, installation.Tail(fmt.Sprintf("%q", r.Users), 400))
	}
	for _, s := range m.Strays() {
		fmt.Fprintf(&b, "  stray call %s\n", s)
	}
	return b.String()
}

// events returns the events of a run so far.
func (w *tenant) events(id string) []stint.Event {
	w.Helper()
	return installation.Events(w, w.client, id)
}

// outputs returns the output events of a run so far.
func (w *tenant) outputs(id string) []stint.OutputData {
	w.Helper()
	var out []stint.OutputData
	for _, e := range w.events(id) {
		if e.Type == stint.EventOutput {
			out = append(out, installation.Output(w, e))
		}
	}
	return out
}

// transcript returns the concatenated output of a run so far.
func (w *tenant) transcript(id string) string {
	w.Helper()
	var b strings.Builder
	for _, o := range w.outputs(id) {
		b.WriteString(o.Content)
	}
	return b.String()
}

// item waits for the first output event of a run for which the function is returns
// true, and returns the data of the event.
func (w *tenant) item(id string, is func(stint.OutputData) bool) stint.OutputData {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), waitLimit)
	defer cancel()
	for e, err := range w.client.Runs.Events(ctx, id, 0) {
		if err != nil {
			w.Fatalf("events of %s: %v; %s", id, err, w.story(id))
		}
		if e.Type != stint.EventOutput {
			continue
		}
		if o := installation.Output(w, e); is(o) {
			return o
		}
	}
	w.Fatalf("%s ended without the expected item; %s", id, w.story(id))
	panic("unreachable")
}

func (w *tenant) logs(id string, kind stint.LogType) []stint.LogEntry {
	w.Helper()
	return installation.Logs(w, w.client, id, kind)
}

// callsWith returns the model calls that contain mark in the newest user message.
func (w *tenant) callsWith(mark string) []modeltest.Request {
	var out []modeltest.Request
	for _, r := range w.model.Requests() {
		if n := len(r.Users); n > 0 && strings.Contains(r.Users[n-1], mark) {
			out = append(out, r)
		}
	}
	return out
}
