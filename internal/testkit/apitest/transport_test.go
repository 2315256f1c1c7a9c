package apitest_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/stint-dev/stint/internal/testkit/apitest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const run = "/v1/runs/run_01jz8w1k2m4n6p8q0r2s4t6v8w"

// reply is a handler that always sends the same response. Tests derive faulty replies
// from replies that match the API document.
type reply struct {
	status int
	header map[string]string
	body   string
}

func (a reply) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	for name, v := range a.header {
		w.Header().Set(name, v)
	}
	w.WriteHeader(a.status)
	_, _ = io.WriteString(w, a.body)
}

// with returns a copy of the reply with a changed header. If value is empty, the copy
// does not have the header.
func (a reply) with(name, value string) reply {
	changed := map[string]string{name: value}
	for n, v := range a.header {
		if n != name {
			changed[n] = v
		}
	}
	if value == "" {
		delete(changed, name)
	}
	a.header = changed
	return a
}

// swap returns a copy of the reply in which the first occurrence of old in the body is
// replaced. It panics if the body does not contain old.
func (a reply) swap(old, with string) reply {
	if !strings.Contains(a.body, old) {
		panic("no " + old + " in " + a.body)
	}
	a.body = strings.Replace(a.body, old, with, 1)
	return a
}

func good(t *testing.T, status int, kind, example string) reply {
	a := reply{status: status, header: map[string]string{"X-Request-Id": "req_" + strings.Repeat("5", 32), "X-API-Version": "v1"}}
	if kind != "" {
		a.header["Content-Type"] = kind
	}
	if example != "" {
		a.body = string(apitest.Example(t, example))
	}
	return a
}

func failure(t *testing.T, status int, kind, code string) reply {
	a := good(t, status, "application/json", "")
	a.body = `{"error":{"type":"` + kind + `","code":"` + code + `","message":"No."}}`
	return a
}

// send sends a request, modified by change, to a server with the handler h. It returns
// the text of the Fault that Transport returns, or "" if there is no fault.
func send(t *testing.T, h http.Handler, method, path, body string, change func(*http.Request) *http.Request) string {
	t.Helper()
	s := serve(t, h)
	var from io.Reader
	if body != "" {
		from = strings.NewReader(body)
	}
	req, err := http.NewRequestWithContext(t.Context(), method, s.URL+path, from)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if change != nil {
		req = change(req)
	}
	resp, err := apitest.Transport(s.Client().Transport).RoundTrip(req)
	if err == nil {
		_, err = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
	}
	if f, ok := errors.AsType[*apitest.Fault](err); ok {
		return f.Error()
	}
	if err != nil {
		t.Fatal(err)
	}
	return ""
}

func TestAnswers(t *testing.T) {
	t.Parallel()
	ok := good(t, 200, "application/json", "Run")
	missing := failure(t, 404, "not_found_error", "resource_not_found")
	redirect := good(t, 302, "", "").with("Location", "/v1/downloads/x")
	archive := good(t, 200, "application/gzip", "").with("ETag", `"e"`).with("Content-Disposition", "attachment").with("Content-Length", "0")
	const download = "/v1/volumes/vol_01jz8w5d7f9h1k3m5p7r9t1v3x/download"
	for name, c := range map[string]struct {
		method, path string
		answer       reply
		want         string // part of the fault; empty if the exchange has no fault
	}{
		"fine":                         {"GET", run, ok, ""},
		"with a charset":               {"GET", run, ok.with("Content-Type", "application/json; charset=utf-8"), ""},
		"error":                        {"GET", run, missing, ""},
		"error with all it may have":   {"GET", run, missing.swap(`"message"`, `"param":"id","docUrl":"https://x","details":[{"code":"invalid_parameter","message":"a"},{"code":"invalid_parameter","message":"b"}],"message"`), ""},
		"redirect":                     {"GET", download, redirect, ""},
		"archive":                      {"GET", "/v1/downloads/x", archive, ""},
		"head":                         {"HEAD", run, ok, ""},
		"no content":                   {"DELETE", "/v1/tokens/x", good(t, 204, "", ""), ""},
		"HTML page":                    {"GET", "/console", reply{status: 200, body: "<p>hello</p>"}, ""},
		"unknown path":                 {"GET", "/v1/nope", missing, ""},
		"encoded slash":                {"PUT", "/v1/secrets/%2F", missing, ""},
		"another name":                 {"PUT", "/v1/secrets/a%2Fb", missing, "404 is not documented"},
		"no request ID":                {"GET", run, ok.with("X-Request-Id", ""), "X-Request-Id"},
		"odd request ID":               {"GET", run, ok.with("X-Request-Id", "req_1"), "X-Request-Id"},
		"no API version":               {"GET", run, ok.with("X-API-Version", ""), "X-API-Version"},
		"other API version":            {"GET", run, missing.with("X-API-Version", "v2"), "X-API-Version"},
		"extra member":                 {"GET", run, ok.swap(`{`, `{"orgId":"org_1",`), "orgId"},
		"extra member deep down":       {"GET", "/v1/artifacts/x", good(t, 200, "application/json", "ArtifactDetail").swap(`"message"`, `"digest":"x","message"`), "currentVersion"},
		"missing member":               {"GET", run, ok.swap(`"error":null,`, ``), `"error" is missing`},
		"wrong enum":                   {"GET", run, ok.swap(`"completed"`, `"done"`), "status"},
		"wrong reason":                 {"GET", run, ok.swap(`"statusReason":null`, `"statusReason":"because"`), "statusReason"},
		"null where none may be":       {"GET", run, ok.swap(`"metadata":{"ticket":"4711"}`, `"metadata":null`), "metadata"},
		"text for a number":            {"GET", run, ok.swap(`72238`, `"72238"`), "executionTimeMs"},
		"fraction for a whole number":  {"GET", run, ok.swap(`72238`, `72238.5`), "executionTimeMs"},
		"negative duration":            {"GET", run, ok.swap(`72238`, `-1`), "executionTimeMs"},
		"time without milliseconds":    {"GET", run, ok.swap(`15:04:05.000Z`, `15:04:05Z`), "createdAt"},
		"time with an offset":          {"GET", run, ok.swap(`15:04:05.000Z`, `15:04:05.000+00:00`), "createdAt"},
		"invalid time":                 {"GET", run, ok.swap(`"createdAt":"2026-01`, `"createdAt":"2026-13`), "createdAt"},
		"ID of another kind":           {"GET", run, ok.swap(`"id":"run_`, `"id":"ag_`), "/id"},
		"ID in upper case":             {"GET", run, ok.swap(`run_01jz`, `run_01JZ`), "/id"},
		"odd version ID":               {"GET", run, ok.swap(`v4_k7`, `v0_k7`), "artifactVersion"},
		"duplicate member":             {"GET", run, ok.swap(`{`, `{"id":"x",`), "twice"},
		"trailing text":                {"GET", run, reply{ok.status, ok.header, ok.body + "{}"}, "follows"},
		"no JSON":                      {"GET", run, reply{ok.status, ok.header, "hello"}, "JSON"},
		"no body":                      {"GET", run, reply{ok.status, ok.header, ""}, "JSON"},
		"volumes in a create response": {"POST", "/v1/runs", good(t, 202, "application/json", "Run"), "volumes"},
		"more than eight in a list":    {"GET", "/v1/runs", good(t, 200, "application/json", "RunPage").swap(`"prompt"`, `"error":null,"prompt"`), "error"},
		"page without pagination":      {"GET", "/v1/runs", reply{200, ok.header, `{"data":[]}`}, "pagination"},
		"null for an empty page":       {"GET", "/v1/runs", reply{200, ok.header, `{"data":null,"pagination":{"hasMore":false,"nextCursor":null}}`}, "data"},
		"token in a list":              {"GET", "/v1/tokens", good(t, 200, "application/json", "TokenPage").swap(`"name"`, `"token":"stint_live_1","name"`), "token"},
		"wrong kind of tree":           {"GET", "/v1/volumes/x", good(t, 200, "application/json", "ArtifactDetail"), "id"},
		"undocumented status":          {"GET", run, reply{202, ok.header, ok.body}, "202 is not documented"},
		"redirected":                   {"GET", run, redirect, "302 is not documented"},
		"status 500":                   {"GET", run, failure(t, 500, "api_error", "internal_error"), "the status is 500"},
		"wrong Content-Type":           {"GET", run, ok.with("Content-Type", "text/plain"), "Content-Type"},
		"plain text error":             {"GET", run, reply{404, missing.with("Content-Type", "text/plain").header, "not found"}, "Content-Type"},
		"error body of another shape":  {"GET", run, reply{404, missing.header, `{"message":"no"}`}, "error"},
		"extra member of an error":     {"GET", run, missing.swap(`"message"`, `"stack":"x","message"`), "stack"},
		"empty message":                {"GET", run, missing.swap(`No.`, ``), "message"},
		"type of another status":       {"GET", run, failure(t, 404, "invalid_request_error", "resource_not_found"), "type"},
		"code of another status":       {"GET", run, failure(t, 404, "not_found_error", "invalid_parameter"), "code"},
		"unknown code":                 {"GET", "/v1/runs", failure(t, 400, "invalid_request_error", "bad"), "code"},
		"401 without a challenge":      {"GET", run, failure(t, 401, "authentication_error", "invalid_api_key"), "WWW-Authenticate"},
		"405 without Allow":            {"PUT", run, failure(t, 405, "invalid_request_error", "method_not_allowed"), "Allow"},
		"404 for a method":             {"PUT", run, missing, "method"},
		"200 for an unknown path":      {"GET", "/v1/nope", ok, "unknown path"},
		"plain 404 elsewhere":          {"GET", "/nope", reply{404, map[string]string{"Content-Type": "text/plain"}, "no"}, "X-Request-Id"},
		"redirect without Location":    {"GET", download, redirect.with("Location", ""), "Location"},
		"redirect with a body":         {"GET", download, reply{302, redirect.header, "<a>Found</a>"}, "body"},
		"archive without an ETag":      {"GET", "/v1/downloads/x", archive.with("ETag", ""), "ETag"},
		"archive shown inline":         {"GET", "/v1/downloads/x", archive.with("Content-Disposition", "inline"), "Content-Disposition"},
		"archive as something else":    {"GET", "/v1/downloads/x", archive.with("Content-Type", "application/pdf"), "Content-Type"},
		"a part unasked":               {"GET", "/v1/downloads/x", reply{206, archive.header, ""}, "without Range"},
		"head without an ETag":         {"HEAD", "/v1/downloads/x", archive.with("ETag", ""), "ETag"},
		"odd Location of a new thing":  {"POST", "/v1/runs", good(t, 202, "application/json", "CreatedRun").with("Location", "run_1"), "Location"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sent := map[string]string{"POST": `{"agent":"shell","prompt":"true"}`, "PUT": `{"value":"x"}`}[c.method]
			got := send(t, c.answer, c.method, c.path, sent, nil)
			if c.want == "" && got != "" || !strings.Contains(got, c.want) {
				t.Errorf("found %q, want %q", got, c.want)
			}
		})
	}
}

func TestRequests(t *testing.T) {
	t.Parallel()
	const body = `{"agent":"shell","prompt":"true"}`
	header := func(name, value string) func(*http.Request) *http.Request {
		return func(r *http.Request) *http.Request { r.Header.Set(name, value); return r }
	}
	list, created := good(t, 200, "application/json", "RunPage"), good(t, 202, "application/json", "CreatedRun")
	stream := good(t, 200, "text/event-stream", "")
	for name, c := range map[string]struct {
		method, path, body string
		change             func(*http.Request) *http.Request
		answer             reply
		want               string
	}{
		"fine":                    {"GET", "/v1/runs?limit=100&status=failed&metadata[a]=b&since=2026-01-02T15:04:05Z", "", nil, list, ""},
		"fine with a body":        {"POST", "/v1/runs", body, header("Idempotency-Key", "k"), created, ""},
		"malformed ID":            {"GET", "/v1/runs/nonsense", "", nil, good(t, 200, "application/json", "Run"), ""},
		"limit of 0":              {"GET", "/v1/runs?limit=0", "", nil, list, "limit"},
		"limit of 101":            {"GET", "/v1/runs?limit=101", "", nil, list, "limit"},
		"limit in words":          {"GET", "/v1/runs?limit=ten", "", nil, list, "limit"},
		"unknown status":          {"GET", "/v1/runs?status=done", "", nil, list, "status"},
		"unknown parameter":       {"GET", "/v1/runs?page=2", "", nil, list, "page"},
		"no time":                 {"GET", "/v1/runs?since=today", "", nil, list, "since"},
		"no prompt":               {"POST", "/v1/runs", `{"agent":"shell"}`, nil, created, "prompt"},
		"none of four":            {"POST", "/v1/runs", `{"prompt":"true"}`, nil, created, "body"},
		"number for a variable":   {"POST", "/v1/runs", `{"agent":"a","prompt":"true","variables":{"A":1}}`, nil, created, "variables"},
		"priority of 10":          {"POST", "/v1/runs", `{"agent":"a","prompt":"true","priority":10}`, nil, created, "priority"},
		"17 pairs":                {"POST", "/v1/runs", `{"agent":"a","prompt":"true","metadata":{` + pairs(17) + `}}`, nil, created, "metadata"},
		"no JSON":                 {"POST", "/v1/runs", `hello`, nil, created, "JSON"},
		"no body":                 {"POST", "/v1/runs", "", nil, created, "no body"},
		"another Content-Type":    {"POST", "/v1/runs", body, header("Content-Type", "text/plain"), created, "Content-Type"},
		"body where none goes":    {"POST", run + "/cancel", body, nil, good(t, 200, "application/json", "CancelledRun"), "takes none"},
		"long key":                {"POST", "/v1/runs", body, header("Idempotency-Key", strings.Repeat("k", 256)), created, "Idempotency-Key"},
		"unknown definition key":  {"POST", "/v1/agents", `{"name":"a","framework":"shell","comand":[]}`, nil, reply{201, list.header, string(apitest.Example(t, "Agent"))}, "comand"},
		"definition without name": {"POST", "/v1/agents", `{"framework":"shell"}`, nil, reply{201, list.header, string(apitest.Example(t, "Agent"))}, "name"},
		"stream token":            {"GET", run + "/events?access_token=x", "", func(r *http.Request) *http.Request { r.Header.Del("Authorization"); return r }, stream, ""},
		"stream token elsewhere":  {"GET", run + "?access_token=x", "", nil, good(t, 200, "application/json", "Run"), "access_token"},
		"allowed invalid":         {"GET", "/v1/runs?limit=0", "", func(r *http.Request) *http.Request { return r.WithContext(apitest.AllowInvalid(r.Context())) }, failure(t, 400, "invalid_request_error", "invalid_parameter"), ""},
		"allowed failure":         {"GET", "/v1/runs", "", func(r *http.Request) *http.Request { return r.WithContext(apitest.AllowFailure(r.Context())) }, failure(t, 503, "api_error", "unavailable").with("Retry-After", "1"), ""},
		"failing without a hint":  {"GET", "/v1/runs", "", func(r *http.Request) *http.Request { return r.WithContext(apitest.AllowFailure(r.Context())) }, failure(t, 503, "api_error", "unavailable"), "Retry-After"},
		"answered without token":  {"GET", "/v1/runs", "", func(r *http.Request) *http.Request { r.Header.Del("Authorization"); return r }, list, "no token"},
		"answered to half a key":  {"GET", "/v1/runs", "", header("Authorization", "Bearer stint_live_00"), list, "no token"},
		"another request's ID":    {"GET", "/v1/runs", "", header("X-Request-Id", "req_"+strings.Repeat("a", 32)), list, "in the request it was"},
		"own ID kept":             {"GET", "/v1/runs", "", header("X-Request-Id", "req_"+strings.Repeat("5", 32)), list, ""},
		"own ID of another form":  {"GET", "/v1/runs", "", header("X-Request-Id", "mine"), list, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := send(t, c.answer, c.method, c.path, c.body, c.change)
			if c.want == "" && got != "" || !strings.Contains(got, c.want) {
				t.Errorf("found %q, want %q", got, c.want)
			}
		})
	}
}

func pairs(n int) string {
	all := make([]string, n)
	for i := range all {
		all[i] = `"k` + string(rune('a'+i)) + `":"v"`
	}
	return strings.Join(all, ",")
}

func TestBodiesArePassedUnchanged(t *testing.T) {
	t.Parallel()
	const sent = `{"agent":"shell","prompt":"true"}`
	received := make(chan string, 1)
	answer := good(t, 202, "application/json", "CreatedRun")
	s := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		received <- string(raw)
		answer.ServeHTTP(w, r)
	}))
	req, _ := http.NewRequestWithContext(t.Context(), "POST", s.URL+"/v1/runs", strings.NewReader(sent))
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", "application/json")
	resp, err := apitest.Client(t).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{sent, answer.body}, []string{<-received, string(raw)}); diff != "" {
		t.Errorf("(-sent +received):\n%s", diff)
	}
}

func TestFaultsFailTheTest(t *testing.T) {
	t.Parallel()
	s := serve(t, good(t, 200, "application/json", "Run").with("X-API-Version", ""))
	req, _ := http.NewRequestWithContext(t.Context(), "GET", s.URL+run, nil)
	req.Header.Set("Authorization", "Bearer "+token)

	l := &recorder{TB: t}
	resp, err := apitest.Client(l).Do(req)
	if err != nil {
		t.Fatalf("the exchange failed: %v", err)
	}
	_ = resp.Body.Close()
	want := []string{"GET " + run + ": X-API-Version is '', not 'v1'"}
	if diff := cmp.Diff(want, l.messages); diff != "" {
		t.Errorf("Client (-want +got):\n%s", diff)
	}

	l, rec := &recorder{TB: t}, httptest.NewRecorder()
	good(t, 200, "application/json", "Run").with("X-API-Version", "").ServeHTTP(rec, nil)
	got := rec.Result()
	apitest.Check(l, req, got)
	if diff := cmp.Diff(want, l.messages); diff != "" {
		t.Errorf("Check (-want +got):\n%s", diff)
	}
	if raw, _ := io.ReadAll(got.Body); !bytes.Equal(raw, apitest.Example(t, "Run")) {
		t.Errorf("after Check the body is %.40q", raw)
	}
}

func TestRedirectsToOtherServersAreNotChecked(t *testing.T) {
	t.Parallel()
	bucket := serve(t, reply{status: 200, body: "bytes"})
	s := serve(t, good(t, 302, "", "").with("Location", bucket.URL+"/v1/bucket/key"))
	req, _ := http.NewRequestWithContext(context.Background(), "GET", s.URL+"/v1/volumes/x/download", nil)
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := (&http.Client{Transport: apitest.Transport(s.Client().Transport)}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
}
