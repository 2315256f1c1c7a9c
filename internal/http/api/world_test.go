package api_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/agents"
	"github.com/stint-dev/stint/internal/artifacts"
	"github.com/stint-dev/stint/internal/auth"
	"github.com/stint-dev/stint/internal/blob/localfs"
	"github.com/stint-dev/stint/internal/blob/quota"
	"github.com/stint-dev/stint/internal/dispatch"
	"github.com/stint-dev/stint/internal/feed"
	"github.com/stint-dev/stint/internal/files"
	"github.com/stint-dev/stint/internal/files/index"
	"github.com/stint-dev/stint/internal/http/api"
	"github.com/stint-dev/stint/internal/notify/inproc"
	"github.com/stint-dev/stint/internal/runs"
	"github.com/stint-dev/stint/internal/sealing"
	"github.com/stint-dev/stint/internal/secrets"
	"github.com/stint-dev/stint/internal/store"
	"github.com/stint-dev/stint/internal/store/sqlite"
	"github.com/stint-dev/stint/internal/testkit/apitest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// ownOrg is the name of the organisation of world.caller. The name cannot occur in an ID.
const ownOrg = "oil-mill"

// world is an API server without workers. Tests act as its worker.
type world struct {
	testing.TB
	url      string
	client   *http.Client
	store    store.Store
	auth     *auth.Service
	dispatch *dispatch.Local
	ids      *stint.IDs
	token    string // token of caller, the owner ann of ownOrg
	caller   auth.Caller
	log      *logBuffer
	ahead    atomic.Int64 // nanoseconds by which the clock is ahead
	stop     context.CancelFunc
	runs     api.Runs
	worker   string
	blobs    string // the folder with the stored objects
}

// option changes the configuration of a world.
type option func(*api.Config)

func newWorld(t testing.TB, options ...option) *world {
	t.Helper()
	if test, ok := t.(*testing.T); ok {
		test.Parallel()
	}
	s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "stint.db"), sqlite.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	blobDir := filepath.Join(t.TempDir(), "blobs")
	blobs, err := localfs.Open(blobDir)
	if err != nil {
		t.Fatal(err)
	}
	limited := quota.New(blobs, quota.Options{})
	index, err := index.Open(filepath.Join(t.TempDir(), "chunks"))
	if err != nil {
		t.Fatal(err)
	}
	library, err := files.New(limited, files.Options{TempDir: t.TempDir(), Index: index})
	if err != nil {
		t.Fatal(err)
	}
	sealer, err := sealing.NewSealer(make([]byte, sealing.KeySize))
	if err != nil {
		t.Fatal(err)
	}
	w := &world{TB: t, store: s, log: &logBuffer{}, blobs: blobDir}
	w.ids = stint.NewIDs(time.Now, rand.Reader)
	bus := inproc.New()
	f := feed.New(s, bus, false)
	w.dispatch = dispatch.NewLocal(dispatch.Config{Store: s, Bus: bus, Feed: f, Sealer: sealer, Now: w.now})
	w.auth = auth.New(auth.Config{Store: s, IDs: w.ids, Now: w.now, Key: make([]byte, auth.KeySize), Runs: s})
	stop, cancel := context.WithCancel(context.Background())
	w.stop = cancel
	c := api.Config{
		Auth:      w.auth,
		Secrets:   secrets.New(secrets.Config{Store: s, Sealer: sealer, Now: w.now}),
		Agents:    agents.New(agents.Config{Store: s, IDs: w.ids, Now: w.now}),
		Artifacts: artifacts.New(artifacts.Config{Store: s, Library: library, Quota: limited, IDs: w.ids, Now: w.now}),
		Runs:      runs.New(runs.Config{Store: s, Dispatch: w.dispatch, Bus: bus, Sealer: sealer, IDs: w.ids, Now: w.now, MaxDepth: 3}),
		Feed:      f, Frameworks: frameworks{}, Idempotency: s, Ready: s.Ping, Registry: prometheus.NewRegistry(),
		Log: slog.New(slog.NewTextHandler(w.log, nil)), Now: w.now, Stop: stop,
	}
	for _, o := range options {
		o(&c)
	}
	w.runs = c.Runs
	server := httptest.NewUnstartedServer(api.New(c))
	server.Config.ConnContext = func(ctx context.Context, conn net.Conn) context.Context {
		if err := conn.(*net.TCPConn).SetWriteBuffer(8 << 10); err != nil { // small, so that a client that does not read blocks the server early
			t.Error(err)
		}
		return ctx
	}
	server.Start()
	w.url = server.URL
	w.client = apitest.Client(t)
	w.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	t.Cleanup(func() {
		cancel()
		server.Close()
		if err := errors.Join(bus.Close(), s.Close(), blobs.Close(), index.Close()); err != nil {
			t.Error(err)
		}
	})
	w.token = w.login(ownOrg, "ann")
	if w.caller, err = w.auth.Authenticate(t.Context(), w.token); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) now() time.Time { return time.Now().Add(time.Duration(w.ahead.Load())) }

func (w *world) pass(d time.Duration) { w.ahead.Add(int64(d)) }

func (w *world) login(org, user string) string {
	w.Helper()
	token, err := w.auth.Login(w.Context(), org, user, stint.NewToken{Name: "laptop"})
	if err != nil {
		w.Fatal(err)
	}
	return token.Secret
}

// tokenWithScope creates a token of the caller with one scope and returns its secret.
func (w *world) tokenWithScope(scope string) string {
	w.Helper()
	token, err := w.auth.CreateToken(w.Context(), w.caller, stint.NewToken{Name: scope, Scopes: []string{scope}})
	if err != nil {
		w.Fatal(err)
	}
	return token.Secret
}

// frameworks are the frameworks of a server without Codex.
type frameworks struct{}

func (frameworks) Frameworks(context.Context) []stint.Framework {
	version := "2.1.197"
	return []stint.Framework{
		{Name: "shell", Available: true},
		{Name: "claude-code", Available: true, Version: &version, Capabilities: stint.Capabilities{Model: true, Tools: true}},
		{Name: "codex", Reason: "The framework 'codex' needs the program 'codex'.", Capabilities: stint.Capabilities{Model: true}},
	}
}

// logBuffer collects the log of the server. Its methods can be called concurrently.
type logBuffer struct {
	mu   sync.Mutex // guards text
	text strings.Builder
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// request is a request of a test.
type request struct {
	method, path string
	token        string // "-" means none, "" means world.token
	header       map[string]string
	body         any  // string and []byte are sent unchanged, other values as JSON
	hostile      bool // the request may violate the contract
	failing      bool // a status of 500 or more is expected
}

type response struct {
	*http.Response
	body []byte
}

func (w *world) build(ctx context.Context, r request) *http.Request {
	w.Helper()
	var body io.Reader = http.NoBody
	contentType := ""
	switch b := r.body.(type) {
	case nil:
	case string:
		body, contentType = strings.NewReader(b), "application/json"
	case []byte:
		body, contentType = bytes.NewReader(b), "application/x-tar"
	default:
		raw, err := json.Marshal(b)
		if err != nil {
			w.Fatal(err)
		}
		body, contentType = bytes.NewReader(raw), "application/json"
	}
	if r.hostile {
		ctx = apitest.AllowInvalid(ctx)
	}
	if r.failing {
		ctx = apitest.AllowFailure(ctx)
	}
	req, err := http.NewRequestWithContext(ctx, r.method, w.url+r.path, body)
	if err != nil {
		w.Fatal(err)
	}
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	switch r.token {
	case "":
		req.Header.Set("Authorization", "Bearer "+w.token)
	case "-":
	default:
		req.Header.Set("Authorization", "Bearer "+r.token)
	}
	for name, value := range r.header {
		if value == "" {
			req.Header.Del(name)
		} else {
			req.Header.Set(name, value)
		}
	}
	return req
}

func (w *world) do(r request) response {
	w.Helper()
	resp, err := w.client.Do(w.build(w.Context(), r))
	if err != nil {
		w.Fatalf("%s %s: %v", r.method, r.path, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		w.Fatalf("%s %s: %v", r.method, r.path, err)
	}
	return response{resp, body}
}

// get sends a GET request, whose response must have status 200, and decodes the response.
func (w *world) get(path string, into any) {
	w.Helper()
	a := w.do(request{method: "GET", path: path})
	w.decode(a, http.StatusOK, into)
}

func (w *world) decode(a response, status int, into any) {
	w.Helper()
	if a.StatusCode != status {
		w.Fatalf("%s %s returned %d %s, want %d", a.Request.Method, a.Request.URL, a.StatusCode, a.body, status)
	}
	if err := json.Unmarshal(a.body, into); err != nil {
		w.Fatalf("%s %s returned %s: %v", a.Request.Method, a.Request.URL, a.body, err)
	}
}

// post sends body as JSON and decodes the response, which must have the given status.
func (w *world) post(path string, body any, status int, into any) {
	w.Helper()
	w.decode(w.do(request{method: "POST", path: path, body: body}), status, into)
}

func (w *world) newAgent(name string) stint.Agent {
	w.Helper()
	var a stint.Agent
	w.post("/v1/agents", map[string]any{"name": name, "framework": "shell"}, http.StatusCreated, &a)
	return a
}

func (w *world) newRun(agent, prompt string) stint.Run {
	w.Helper()
	var r stint.Run
	w.post("/v1/runs", map[string]any{"agent": agent, "prompt": prompt}, http.StatusAccepted, &r)
	return r
}

// job is a run that the test executes.
type job struct {
	w   *world
	at  store.Position
	run stint.Run

	version string // ID of the agent's version
	depth   int
}

// claim claims the next run. The assignment must not contain an error.
func (w *world) claim() *job {
	w.Helper()
	a := w.assigned()
	if a.Err != nil {
		w.Fatalf("claim returned %v", a.Err)
	}
	return &job{w, a.Position, a.Run, a.AgentVersionID, a.Plan.Depth}
}

// assigned returns the next assignment of the worker. It registers the worker first if
// necessary.
func (w *world) assigned() dispatch.Assignment {
	w.Helper()
	ctx := w.Context()
	if w.worker == "" {
		w.worker = w.ids.New(stint.PrefixWorker)
		if _, err := w.dispatch.Register(ctx, store.Worker{ID: w.worker, Host: "here", Capacity: 100, CreatedAt: stint.TimeOf(time.Now())}); err != nil {
			w.Fatal(err)
		}
	}
	claimed, err := w.dispatch.Next(ctx, w.worker, 1)
	if err != nil || len(claimed) != 1 {
		w.Fatalf("claim returned %v, %v", claimed, err)
	}
	return claimed[0]
}

// write appends one output event for each text.
func (j *job) write(texts ...string) {
	j.w.Helper()
	b := store.Batch{Token: j.w.ids.New("t")}
	for _, text := range texts {
		data, err := json.Marshal(stint.OutputData{Content: text, Stream: "stdout"})
		if err != nil {
			j.w.Fatal(err)
		}
		b.Events = append(b.Events, stint.Event{Type: stint.EventOutput, At: stint.TimeOf(time.Now()), Data: data})
	}
	head, err := j.w.dispatch.Append(j.w.Context(), j.at, b)
	if err != nil {
		j.w.Fatal(err)
	}
	j.at.After = head
}

func (j *job) finish(status stint.Status) stint.Run {
	j.w.Helper()
	o := store.Outcome{Token: j.w.ids.New("t"), Status: status, At: stint.TimeOf(time.Now()), ExecutionTimeMs: 12}
	if status == stint.Failed {
		text := "it broke"
		o.Error, o.ErrorCode, o.Reason = &text, "exit_code", stint.ReasonExitCode
	}
	o.Checkpoint = j.checkpoint()
	r, err := j.w.dispatch.Finish(j.w.Context(), j.at, o)
	if err != nil {
		j.w.Fatal(err)
	}
	return r
}

func (j *job) checkpoint() *store.Checkpoint {
	return &store.Checkpoint{OrgID: j.w.caller.OrgID, Checkpoint: stint.Checkpoint{
		ID: j.w.ids.New(stint.PrefixCheckpoint), RunID: j.run.ID, SessionID: j.run.SessionID, AgentID: j.run.AgentID, AgentName: j.run.AgentName,
		AgentVersionID: j.version,
		Volumes:        map[string]string{}, Variables: map[string]string{}, SecretNames: []string{}, CreatedAt: stint.TimeOf(time.Now()),
	}}
}

// errorOf returns the type and code of an error response, separated by a space. It
// returns the whole body if the body is not JSON.
func (a response) errorOf() string {
	var b struct {
		Error struct{ Type, Code, Message, Param string }
	}
	if json.Unmarshal(a.body, &b) != nil {
		return string(a.body)
	}
	return fmt.Sprintf("%s %s", b.Error.Type, b.Error.Code)
}

// withoutTime returns f without the end of its data from the time on.
func withoutTime(f frame) frame {
	f.Data, _, _ = strings.Cut(f.Data, `,"timestamp":"`)
	return f
}
