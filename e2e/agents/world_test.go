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
	// waitLimit is how long a test waits for what must happen.
	waitLimit = 100 * time.Second
	// modelKey is the key that the model's server takes.
	modelKey = "sk-live-3f9a1c77d2e84b06"
	model    = "mock-large"
)

// object is a JSON object.
type object = map[string]any

// kind is a way to have an agent.
type kind struct {
	name       string
	dialect    string // in which it asks its model
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

// onHost is a URL of this machine's loopback as sandboxes name it.
func onHost(at string) string { return strings.Replace(at, "127.0.0.1", stint.HostAlias, 1) }

// host is an installation with the agents' programs.
type host struct{ *installation.Host }

// serve starts a server that finds the real ones.
func serve(t *testing.T) *host {
	t.Helper()
	return serveWith(t,
		"STINT_CLAUDE_CODE_BIN="+agentstest.Claude(t), "STINT_CODEX_BIN="+agentstest.Codex(t),
		"PATH="+filepath.Join(agentstest.Folder(t), "node_modules/.bin")+":"+os.Getenv("PATH"))
}

// serveWith starts a server with an environment.
func serveWith(t *testing.T, env ...string) *host {
	t.Helper()
	h := &host{installation.New(t, "--isolation", "namespace", "--max-depth", "1")}
	h.Env = env
	h.Start()
	return h
}

// world is an organisation, its model and one kind of agent.
type world struct {
	*testing.T
	host   *host
	client *client.Client
	kind   kind
	model  *modeltest.Server
}

// organisations counts them, for their names.
var organisations atomic.Int64

func (h *host) world(t *testing.T, k kind) *world {
	t.Helper()
	org := fmt.Sprintf("org-%d", organisations.Add(1))
	m := modeltest.StartWith(t, modeltest.Options{Key: modelKey, Models: []string{model}})
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the model was asked:\n%s", modelCalls(m))
		}
	})
	return &world{t, h, h.Login(t, org), k, m}
}

// agent pushes the world's kind of agent; more is added to its definition.
func (w *world) agent(name string, more object) {
	w.Helper()
	d := object{
		"name": name, "model": model, "artifact": object{},
		"network": object{"mode": "restricted", "allow": []string{hostOf(onHost(w.model.URL))}},
	}
	maps.Copy(d, w.kind.definition(w.model))
	maps.Copy(d, more)
	w.push(d)
}

func (w *world) push(d object) {
	w.Helper()
	raw, err := json.Marshal(d)
	installation.Check(w, err)
	_, err = w.client.Agents.Create(w.Context(), raw)
	installation.Check(w, err)
}

func hostOf(at string) string {
	u, err := url.Parse(at)
	if err != nil {
		panic(err)
	}
	return u.Host
}

// create starts a run with the model's key.
func (w *world) create(n stint.NewRun) *stint.Run {
	w.Helper()
	if n.Secrets == nil {
		n.Secrets = map[string]string{"MODEL_KEY": modelKey}
	}
	r, err := w.client.Runs.Create(w.Context(), n, nil)
	installation.Check(w, err)
	return r
}

// ended waits for a run's end.
func (w *world) ended(id string) *stint.Run {
	w.Helper()
	return installation.Ended(w, w.client, id)
}

// run works a run to its end, which must be a completion.
func (w *world) run(n stint.NewRun) *stint.Run {
	w.Helper()
	r := w.ended(w.create(n).ID)
	if r.Status != stint.Completed {
		w.Fatalf("%s ended %s (%s): %s; %s", r.ID, r.Status, installation.Value(r.StatusReason), installation.Value(r.Error), w.story(r.ID))
	}
	return r
}

// fails works a run to its end, which must be a failure whose error has the
// words.
func (w *world) fails(n stint.NewRun, reason stint.Reason, words ...string) *stint.Run {
	w.Helper()
	return w.failed(w.create(n), reason, words...)
}

func (w *world) failed(r *stint.Run, reason stint.Reason, words ...string) *stint.Run {
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

// story is what a run told, for a test that fails.
func (w *world) story(id string) string {
	w.Helper()
	return installation.Story(w, w.client, id)
}

// modelCalls are those of the model, for a test that fails.
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

// events are those of a run so far.
func (w *world) events(id string) []stint.Event {
	w.Helper()
	return installation.Events(w, w.client, id)
}

// outputs are the output events of a run so far.
func (w *world) outputs(id string) []stint.OutputData {
	w.Helper()
	var out []stint.OutputData
	for _, e := range w.events(id) {
		if e.Type == stint.EventOutput {
			out = append(out, installation.Output(w, e))
		}
	}
	return out
}

// transcript is the text of a run.
func (w *world) transcript(id string) string {
	w.Helper()
	var b strings.Builder
	for _, o := range w.outputs(id) {
		b.WriteString(o.Content)
	}
	return b.String()
}

// item waits for an item of a running run and gives its event.
func (w *world) item(id string, is func(stint.OutputData) bool) stint.OutputData {
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
	w.Fatalf("%s ended without what was waited for; %s", id, w.story(id))
	panic("unreachable")
}

func (w *world) logs(id string, kind stint.LogType) []stint.LogEntry {
	w.Helper()
	return installation.Logs(w, w.client, id, kind)
}

// asked are the model calls whose newest message of the user holds a mark.
func (w *world) asked(mark string) []modeltest.Request {
	var out []modeltest.Request
	for _, r := range w.model.Requests() {
		if n := len(r.Users); n > 0 && strings.Contains(r.Users[n-1], mark) {
			out = append(out, r)
		}
	}
	return out
}
