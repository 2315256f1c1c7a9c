package api_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/auth"
	"github.com/stint-dev/stint/internal/http/api"
)

var idForm = regexp.MustCompile(`^req_[0-9a-f]{32}$`)

func TestResponseHeaders(t *testing.T) {
	b := &failingRuns{how: func() error { panic("broken") }}
	w := newWorld(t, func(c *api.Config) { b.Runs = c.Runs; c.Runs = b })
	words := w.volumeWithVersion()
	seen := map[string]bool{}
	for _, r := range []request{
		{method: "GET", path: "/v1/runs"},
		{method: "GET", path: "/v1/runs", token: "-", hostile: true},
		{method: "GET", path: "/nothing", hostile: true},
		{method: "GET", path: "/v1//runs", hostile: true},
		{method: "PATCH", path: "/v1/runs", hostile: true},
		{method: "GET", path: "/healthz"},
		{method: "GET", path: "/metrics"},
		{method: "POST", path: "/v1/runs", body: `{"agent":"a","prompt":"x"}`, failing: true},
		{method: "GET", path: "/v1/volumes/" + words + "/download"},
		{method: "CONNECT", path: "/v1/runs", hostile: true},
	} {
		a := w.do(r)
		id := a.Header.Get("X-Request-Id")
		if !idForm.MatchString(id) || seen[id] || a.Header.Get("X-Api-Version") != "v1" {
			t.Errorf("%s %s returned the headers %v", r.method, r.path, a.Header)
		}
		seen[id] = true
	}
	for given, kept := range map[string]bool{
		"req_0123456789abcdef0123456789abcdef": true, "req_0123456789ABCDEF0123456789abcdef": false, "req_1": false, "x": false,
		"req_0123456789abcdef0123456789abcdef0": false,
	} {
		a := w.do(request{method: "GET", path: "/healthz", header: map[string]string{"X-Request-Id": given}})
		if got := a.Header.Get("X-Request-Id"); (got == given) != kept || !idForm.MatchString(got) {
			t.Errorf("the client's request ID %q became %q", given, got)
		}
	}
}

// volumeWithVersion creates a volume with a version and returns its ID.
func (w *world) volumeWithVersion() string {
	w.Helper()
	var volume stint.FileSet
	w.post("/v1/volumes", map[string]any{"name": "data"}, http.StatusCreated, &volume)
	w.decode(w.do(request{method: "POST", path: "/v1/volumes/" + volume.ID + "/versions", body: archive(w, map[string]string{"a": "1"})}), 201, &stint.FileSetVersion{})
	return volume.ID
}

func TestHealth(t *testing.T) {
	var broken error
	w := newWorld(t, func(c *api.Config) { c.Ready = func(context.Context) error { return broken } })
	for _, path := range []string{"/healthz", "/readyz"} {
		if a := w.do(request{method: "GET", path: path, token: "-"}); a.StatusCode != 200 || string(a.body) != "{\"status\":\"ok\"}\n" {
			t.Errorf("%s returned %d %s", path, a.StatusCode, a.body)
		}
	}
	broken = errors.New("database at /srv/stint.db is locked")
	a := w.do(request{method: "GET", path: "/readyz", token: "-", failing: true})
	if a.StatusCode != 503 || a.Header.Get("Retry-After") == "" || strings.Contains(string(a.body), "/srv") || a.errorOf() != "api_error unavailable" {
		t.Errorf("/readyz returned %d %s", a.StatusCode, a.body)
	}
	if !strings.Contains(w.log.String(), "locked") {
		t.Error("the log does not contain the cause")
	}
	broken = &stint.Error{Kind: stint.KindUnavailable, Code: stint.CodeUnavailable, Message: "Sandboxes do not start."}
	a = w.do(request{method: "GET", path: "/readyz", token: "-", failing: true})
	if a.StatusCode != 503 || a.Header.Get("Retry-After") == "" || !strings.Contains(string(a.body), "Sandboxes do not start.") {
		t.Errorf("/readyz returned %d %s", a.StatusCode, a.body)
	}
}

func TestBearerIgnoresCase(t *testing.T) {
	w := newWorld(t)
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	for _, scheme := range []string{"bearer", "BEARER"} {
		req := w.build(t.Context(), request{method: "GET", path: "/v1/me", header: map[string]string{"Authorization": scheme + " " + w.token}})
		resp, err := transport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != 200 {
			t.Errorf("%s returned %d, %v", scheme, resp.StatusCode, err)
		}
		resp.Body.Close()
	}
}

func TestETagOfFinalRun(t *testing.T) {
	w := newWorld(t)
	words := w.fixture()
	done := "/v1/runs/" + words["done"]
	first := w.do(request{method: "GET", path: done})
	tag := first.Header.Get("ETag")
	second := w.do(request{method: "GET", path: done})
	w.diff("the second response", string(first.body), string(second.body))
	for given, want := range map[string]int{tag: 304, "W/" + tag: 304, `"x", ` + tag: 304, "*": 304, `"x"`: 200} {
		if a := w.do(request{method: "GET", path: done, header: map[string]string{"If-None-Match": given}}); a.StatusCode != want {
			t.Errorf("If-None-Match: %s returned %d, want %d", given, a.StatusCode, want)
		}
	}
	pending := w.do(request{method: "GET", path: "/v1/runs/" + words["run"]})
	if pending.Header.Get("ETag") != "" || pending.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("a pending run has the headers %v", pending.Header)
	}
	if a := w.do(request{method: "GET", path: done, token: words["other"]}); a.StatusCode != 404 {
		t.Errorf("another organisation received %d", a.StatusCode)
	}
}

// TestCheckpointAfterCancel checks that the response for a cancelled run is not cached
// before its worker has added the checkpoint.
func TestCheckpointAfterCancel(t *testing.T) {
	w := newWorld(t)
	w.newAgent("reviewer")
	run := w.newRun("reviewer", "x")
	j := w.claim()
	w.post("/v1/runs/"+run.ID+"/cancel", nil, 200, &run)
	w.get("/v1/runs/"+run.ID, &run)
	c := j.checkpoint()
	if err := w.dispatch.AddCheckpoint(t.Context(), j.at, nil, *c); err != nil {
		t.Fatal(err)
	}
	w.get("/v1/runs/"+run.ID, &run)
	if run.CheckpointID == nil || *run.CheckpointID != c.ID {
		t.Errorf("the run has the checkpoint %v, want %s", run.CheckpointID, c.ID)
	}
}

// leakingRuns is an api.Runs whose Get returns err, or panics if err is nil.
type leakingRuns struct {
	api.Runs
	err error
}

func (h *leakingRuns) Get(context.Context, auth.Caller, string) (stint.Run, error) {
	if h.err == nil {
		panic("goroutine at /srv/stint/runs.go")
	}
	return stint.Run{}, h.err
}

func TestInternalErrorsAreHidden(t *testing.T) {
	for name, err := range map[string]error{
		"panic":     nil,
		"sql":       errors.New(`SQL logic error: no such table: runs (select * from runs) at /srv/stint`),
		"internal":  &stint.Error{Kind: stint.KindInternal, Code: "x", Message: "select /srv"},
		"unknown":   &stint.Error{Kind: 999, Code: "x", Message: "select /srv"},
		"a cause":   &stint.Error{Kind: stint.KindUnavailable, Code: stint.CodeUnavailable, Message: "Try again.", Cause: errors.New("select /srv")},
		"exhausted": context.DeadlineExceeded,
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(c *api.Config) { c.Runs = &leakingRuns{c.Runs, err} })
			a := w.do(request{method: "GET", path: "/v1/runs/run_01jz8w1k2m4n6p8q0r2s4t6v8w", failing: true})
			if a.StatusCode < 500 || strings.Contains(string(a.body), "/srv") || strings.Contains(string(a.body), "select") {
				t.Errorf("the response is %d %s", a.StatusCode, a.body)
			}
			if id := a.Header.Get("X-Request-Id"); !strings.Contains(w.log.String(), id) {
				t.Errorf("the log does not contain %s:\n%s", id, w.log)
			}
		})
	}
}

func TestStatusOfKinds(t *testing.T) {
	h := &leakingRuns{}
	w := newWorld(t, func(c *api.Config) { h.Runs = c.Runs; c.Runs = h })
	for kind, want := range map[stint.Kind]string{
		stint.KindInternal: "500 api_error internal_error", stint.KindInvalid: "400 invalid_request_error invalid_state",
		stint.KindNotFound: "404 not_found_error resource_not_found", stint.KindConflict: "409 conflict_error version_conflict",
		stint.KindUnauthenticated: "401 authentication_error invalid_api_key", stint.KindForbidden: "403 permission_error insufficient_scope",
		stint.KindRateLimited: "429 rate_limit_error queue_full", stint.KindMethodNotAllowed: "405 invalid_request_error method_not_allowed",
		stint.KindNotAcceptable: "406 invalid_request_error not_acceptable", stint.KindTooLarge: "413 invalid_request_error request_too_large",
		stint.KindUnsupportedMedia: "415 invalid_request_error unsupported_media_type", stint.KindRangeNotSatisfiable: "416 invalid_request_error range_not_satisfiable",
		stint.KindUnavailable: "503 api_error unavailable",
	} {
		words := strings.Fields(want)
		h.err = &stint.Error{Kind: kind, Code: words[2], Message: "A message.", Param: "p", Details: []stint.Detail{{Param: "p", Code: "c", Message: "m"}}}
		req := w.build(t.Context(), request{method: "GET", path: "/v1/runs/run_01jz8w1k2m4n6p8q0r2s4t6v8w"})
		transport := &http.Transport{DisableKeepAlives: true} // does not check the contract, which lists few of these statuses for this path
		resp, err := transport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		if err := errors.Join(err, resp.Body.Close()); err != nil {
			t.Fatal(err)
		}
		a := response{resp, body}
		w.diff("response", want, fmt.Sprint(resp.StatusCode, " ", a.errorOf()))
		if kind != stint.KindInternal && !strings.Contains(string(body), `"param":"p","details":[{"param":"p","code":"c","message":"m"}]`) {
			t.Errorf("the details are missing: %s", body)
		}
	}
}

func TestMetrics(t *testing.T) {
	w := newWorld(t)
	w.do(request{method: "GET", path: "/v1/runs/x", hostile: true})
	w.do(request{method: "GET", path: "/v1/runs/y", hostile: true})
	w.do(request{method: "BREW", path: "/pot/1", hostile: true})
	for name, want := range map[string]string{
		`stint_http_requests_total{method="GET",route="/v1/runs/{id}",status="404"}`:    "2",
		`stint_http_requests_total{method="other",route="unmatched",status="404"}`:      "1",
		`stint_http_request_duration_seconds_count{method="GET",route="/v1/runs/{id}"}`: "2",
		`stint_http_open_streams`: "0",
	} {
		if got := w.metric(name); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
}

// dial opens a connection with a small receive buffer and a deadline.
func (w *world) dial() net.Conn {
	w.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(w.url, "http://"))
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { _ = conn.Close() })
	if err := errors.Join(conn.(*net.TCPConn).SetReadBuffer(4<<10), conn.SetDeadline(time.Now().Add(time.Minute))); err != nil {
		w.Fatal(err)
	}
	return conn
}

// TestWriteTimeout checks that the server ends the connection of a client that does not
// read its responses: a large response, or many small responses.
func TestWriteTimeout(t *testing.T) {
	w := newWorld(t, func(c *api.Config) { c.WriteTimeout = 300 * time.Millisecond })
	w.largeRuns(2)
	conn := w.dial()
	if _, err := fmt.Fprintf(conn, "GET /v1/runs HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n\r\n", w.token); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(time.Minute)
	for w.metrics()[`stint_http_requests_total{method="GET",route="/v1/runs",status="200"}`] != "1" {
		if time.Now().After(deadline) {
			t.Fatal("the response is still being written")
		}
	}

	conn = w.dial()
	many := []byte(strings.Repeat("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n", 100))
	for {
		if _, err := conn.Write(many); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal("the connection is still open")
		} else if err != nil {
			break
		}
	}
}

// TestTruncatedBody checks that a request is refused, and stores nothing, if the client
// closes its side of the connection within the body.
func TestTruncatedBody(t *testing.T) {
	w := newWorld(t)
	id := w.volumeWithVersion()
	for path, typ := range map[string]string{"/v1/runs": "application/json", "/v1/volumes/" + id + "/versions": "application/x-tar"} {
		conn, err := net.Dial("tcp", strings.TrimPrefix(w.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		_, err = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Type: %s\r\nContent-Length: 5000\r\n\r\n{", path, w.token, typ)
		if err := errors.Join(err, conn.(*net.TCPConn).CloseWrite()); err != nil {
			t.Fatal(err)
		}
		raw, err := io.ReadAll(conn)
		if err := errors.Join(err, conn.Close()); err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(string(raw), "HTTP/1.1 400 ") && len(raw) > 0 {
			t.Errorf("%s returned %s", path, raw)
		}
	}
	if a := w.do(request{method: "GET", path: "/v1/volumes/" + id + "/versions"}); a.StatusCode != 200 || strings.Count(string(a.body), `"id"`) != 1 {
		t.Errorf("afterwards: %d %s", a.StatusCode, a.body)
	}
}

// TestBodyTimeout checks that the server answers and closes the connection if the client
// does not send the whole body in time, with and without a token.
func TestBodyTimeout(t *testing.T) {
	w := newWorld(t, func(c *api.Config) { c.BodyTimeout = 100 * time.Millisecond })
	for _, head := range []string{
		"POST /v1/runs HTTP/1.1\r\n",
		"POST /v1/runs HTTP/1.1\r\nAuthorization: Bearer " + w.token + "\r\nContent-Type: application/json\r\n",
		"POST /nothing HTTP/1.1\r\n",
		"POST //nothing HTTP/1.1\r\n",
		"GET /healthz HTTP/1.1\r\n",
		"GET /v1/frameworks HTTP/1.1\r\nAuthorization: Bearer " + w.token + "\r\n",
		"DELETE /v1/secrets/S HTTP/1.1\r\n",
	} {
		for _, body := range []string{"Content-Length: 5\r\n\r\n{", "Transfer-Encoding: chunked\r\n\r\n"} {
			conn := w.dial()
			if _, err := fmt.Fprint(conn, head+"Host: x\r\n"+body); err != nil {
				t.Fatal(err)
			}
			if raw, err := io.ReadAll(conn); err != nil || !strings.HasPrefix(string(raw), "HTTP/1.1 ") {
				t.Errorf("%s%s returned %q, %v", head, body, raw, err)
			}
		}
	}
}

// TestBodyTimeoutAfterBody checks that the timeout of the request body does not end an
// event stream after the body was received.
func TestBodyTimeoutAfterBody(t *testing.T) {
	w := newWorld(t, func(c *api.Config) { c.BodyTimeout, c.Heartbeat = 50*time.Millisecond, 20*time.Millisecond })
	w.newAgent("reviewer")
	run := w.newRun("reviewer", "x")
	conn := w.dial()
	if _, err := fmt.Fprintf(conn, "GET /v1/runs/%s/events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: 2\r\n\r\n{}", run.ID, w.token); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(conn)
	for beats := 0; beats < 20; {
		if !lines.Scan() {
			t.Fatalf("the stream ended after %d heartbeats: %v", beats, lines.Err())
		}
		if lines.Text() == "event: heartbeat" {
			beats++
		}
	}
}
