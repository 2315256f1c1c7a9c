package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/client"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const token = "stint_live_0123"

// serve starts a test server and returns a client of this server. The client attempts
// each request up to four times, with short pauses.
func serve(t *testing.T, h http.Handler) *client.Client {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	c, err := client.New(client.Options{URL: s.URL, Token: token, HTTP: s.Client(), Backoff: time.Millisecond, Attempts: 4})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func writeJSON(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	fmt.Fprint(w, body)
}

func TestNewRefusesInvalidURLs(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"", "localhost:8700", "ftp://x", "http://", "http://u:p@host", "http://host?x=1", "http://host#a", "://", "ftp://u:p@host", "http://u:p@ho st"} {
		if _, err := client.New(client.Options{URL: bad}); err == nil {
			t.Errorf("New accepted the address %q", bad)
		} else if strings.Contains(err.Error(), "u:p") {
			t.Errorf("the error shows a password: %v", err)
		}
	}
}

func TestCreateRunIsRepeatedWithOneKey(t *testing.T) {
	t.Parallel()
	var keys []string
	c := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		keys = append(keys, r.Header.Get("Idempotency-Key"))
		switch len(keys) {
		case 1:
			panic(http.ErrAbortHandler) // closes the connection without a response
		case 2:
			w.Header().Set("Retry-After", "0")
			writeJSON(w, 503, `{"error":{"type":"api_error","code":"unavailable","message":"Later."}}`)
		default:
			body, _ := io.ReadAll(r.Body)
			if got, want := string(body), `{"agent":"a","prompt":"p"}`; got != want {
				t.Errorf("body %s, want %s", got, want)
			}
			if got, want := r.Header.Get("Authorization"), "Bearer "+token; got != want {
				t.Errorf("Authorization %q, want %q", got, want)
			}
			writeJSON(w, 202, `{"id":"run_1","status":"pending","createdAt":"2026-01-02T03:04:05.678Z"}`)
		}
	}))
	run, err := c.Runs.Create(t.Context(), stint.NewRun{Agent: "a", Prompt: "p"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if run.ID != "run_1" || run.Status != stint.Pending {
		t.Errorf("run is %+v", run)
	}
	if len(keys) != 3 || keys[0] == "" || keys[0] != keys[1] || keys[1] != keys[2] {
		t.Errorf("keys are %q, want the same three times", keys)
	}
}

func TestErrorsAreMapped(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		status int
		body   string
		want   client.Error
	}{
		"full": {
			400,
			`{"error":{"type":"invalid_request_error","code":"invalid_parameter","message":"Wrong.","param":"volumes.x","docUrl":"http://d","details":[{"param":"a","code":"c","message":"m"}]}}`,
			client.Error{
				Status: 400, Type: "invalid_request_error", Code: "invalid_parameter", Message: "Wrong.", Param: "volumes.x", DocURL: "http://d",
				Details: []stint.Detail{{Param: "a", Code: "c", Message: "m"}}, RequestID: "req_1",
			},
		},
		"unauthenticated": {
			401, `{"error":{"type":"authentication_error","code":"invalid_api_key","message":"No."}}`,
			client.Error{Status: 401, Type: "authentication_error", Code: "invalid_api_key", Message: "No.", RequestID: "req_1"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("X-Request-Id", "req_1")
				writeJSON(w, tt.status, tt.body)
			}))
			_, err := c.Runs.Get(t.Context(), "run_1")
			got, ok := errors.AsType[*client.Error](err)
			if !ok {
				t.Fatalf("error is %T: %v", err, err)
			}
			if diff := cmp.Diff(tt.want, *got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if !client.IsCode(err, tt.want.Code) || client.IsCode(err, "other") {
				t.Error("IsCode does not follow Code")
			}
		})
	}
}

func TestResponsesOfOtherServersAreErrors(t *testing.T) {
	t.Parallel()
	for _, status := range []int{301, 302, 307, 400, 404, 418, 501} {
		c := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(status)
			fmt.Fprint(w, "<html>")
		}))
		_, err := c.Me(t.Context())
		got, ok := errors.AsType[*client.Error](err)
		if !ok || got.Status != status || !strings.Contains(got.Message, "Is a Stint server at") || got.Type == "" || got.Code == "" {
			t.Errorf("status %d gives %#v", status, err)
		}
	}
}

func TestPermanentErrorsAreNotRepeated(t *testing.T) {
	t.Parallel()
	var calls atomic.Int32
	c := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		if r.Method == http.MethodPost {
			w.Header().Set("Retry-After", "86400")
			writeJSON(w, 429, `{"error":{"code":"rate_limit_exceeded","message":"Tomorrow."}}`)
			return
		}
		writeJSON(w, 404, `{"error":{"code":"resource_not_found","message":"No such run."}}`)
	}))
	if _, err := c.Runs.Get(t.Context(), "run_1"); err == nil {
		t.Error("no error")
	}
	_, err := c.Runs.Cancel(t.Context(), "run_1")
	if e, ok := errors.AsType[*client.Error](err); !ok || e.RetryAfter != 24*time.Hour {
		t.Errorf("error is %#v", err)
	}
	if n := calls.Load(); n != 2 {
		t.Errorf("%d requests, want 2", n)
	}
}

func TestRepeatedDeleteSucceeds(t *testing.T) {
	t.Parallel()
	var calls int
	c := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if calls++; calls == 1 {
			panic(http.ErrAbortHandler)
		}
		writeJSON(w, 404, `{"error":{"code":"resource_not_found","message":"Gone."}}`)
	}))
	if err := c.Tokens.Revoke(t.Context(), "tok_1"); err != nil {
		t.Errorf("second attempt: %v", err)
	}
	if err := c.Tokens.Revoke(t.Context(), "tok_1"); !client.IsCode(err, stint.CodeResourceNotFound) {
		t.Errorf("first attempt: %v", err)
	}
}

func TestListFetchesPagesWhenNeeded(t *testing.T) {
	t.Parallel()
	var asked []string
	c := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.RawQuery)
		switch r.URL.Query().Get("cursor") {
		case "":
			writeJSON(w, 200, `{"data":[{"id":"run_3"},{"id":"run_2"}],"pagination":{"hasMore":true,"nextCursor":"n+1/="}}`)
		case "n+1/=":
			writeJSON(w, 200, `{"data":[{"id":"run_1"}],"pagination":{"hasMore":false,"nextCursor":null}}`)
		}
	}))
	since := stint.TimeOf(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	filter := client.RunFilter{Statuses: []stint.Status{stint.Failed}, Since: &since, Metadata: map[string]string{"k": "v"}, PageSize: 2}
	var ids []string
	for run, err := range c.Runs.List(t.Context(), filter) {
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, run.ID)
	}
	if diff := cmp.Diff([]string{"run_3", "run_2", "run_1"}, ids); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	common := "limit=2&metadata%5Bk%5D=v&since=2026-01-02T03%3A04%3A05.000Z&status=failed"
	if diff := cmp.Diff([]string{common, "cursor=n%2B1%2F%3D&" + common}, asked); diff != "" {
		t.Errorf("queries (-want +got):\n%s", diff)
	}
	for range c.Runs.List(t.Context(), filter) {
		break
	}
	if len(asked) != 3 {
		t.Errorf("%d requests, want one more: the second page is not needed", len(asked))
	}
}

func TestRequestsOfEveryResource(t *testing.T) {
	t.Parallel()
	var got []string
	c := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got = append(got, strings.TrimSpace(fmt.Sprintf("%s %s %s", r.Method, r.URL.RequestURI(), body)))
		switch {
		case r.Method == http.MethodDelete:
			w.WriteHeader(204)
		case strings.Contains(r.URL.RawQuery, "limit="):
			writeJSON(w, 200, `{"data":[{"id":"1","name":"n"}],"pagination":{"hasMore":false,"nextCursor":null}}`)
		default:
			writeJSON(w, 200, `{"id":"1","name":"n"}`)
		}
	}))
	ctx := t.Context()
	calls := []struct {
		want string
		do   func() error
	}{
		{"GET /v1/me", func() error { return second(c.Me(ctx)) }},
		{"GET /v1/runs/run_1", func() error { return second(c.Runs.Get(ctx, "run_1")) }},
		{"GET /v1/runs/a%2Fb%3F", func() error { return second(c.Runs.Get(ctx, "a/b?")) }},
		{"POST /v1/runs/run_1/cancel", func() error { return second(c.Runs.Cancel(ctx, "run_1")) }},
		{`PATCH /v1/runs/run_1 {"metadata":{"k":"v","old":null}}`, func() error {
			v := "v"
			return second(c.Runs.ChangeMetadata(ctx, "run_1", map[string]*string{"k": &v, "old": nil}))
		}},
		{"PATCH /v1/runs/run_1 {}", func() error { return second(c.Runs.ChangeMetadata(ctx, "run_1", nil)) }},
		{"GET /v1/runs/run_1/metrics", func() error { return second(c.Runs.Metrics(ctx, "run_1")) }},
		{"GET /v1/activity", func() error { return second(c.Runs.Activity(ctx, 0)) }},
		{"GET /v1/activity?limit=7", func() error { return second(c.Runs.Activity(ctx, 7)) }},
		{"GET /v1/runs/run_1/logs?limit=100&order=desc&type=system", func() error {
			return walk(c.Runs.Logs(ctx, "run_1", client.LogFilter{Type: stint.LogSystem, Descending: true}))
		}},
		{"GET /v1/runs/run_1/events?lastEventId=4&limit=100", func() error { return walk(c.Runs.RecordedEvents(ctx, "run_1", 4)) }},
		{`POST /v1/agents {"name":"n"}`, func() error { return second(c.Agents.Create(ctx, json.RawMessage(`{"name":"n"}`))) }},
		{"GET /v1/agents?limit=100&name=n", func() error { return second(c.Agents.Find(ctx, "n")) }},
		{"GET /v1/agents?limit=100", func() error { return walk(c.Agents.List(ctx)) }},
		{"GET /v1/agents?idPrefix=ag_01k&limit=2", func() error {
			ids, err := c.IDs(ctx, "ag_01k", 2)
			if len(ids) != 1 || ids[0] != "1" {
				t.Errorf("IDs returned %q", ids)
			}
			return err
		}},
		{"GET /v1/agents/ag_1/versions?limit=100", func() error { return walk(c.Agents.Versions(ctx, "ag_1")) }},
		{"GET /v1/agents/ag_1/versions/latest", func() error { return second(c.Agents.Version(ctx, "ag_1", "latest")) }},
		{"DELETE /v1/agents/ag_1", func() error { return c.Agents.Delete(ctx, "ag_1") }},
		{`POST /v1/volumes {"name":"n"}`, func() error { return second(c.Volumes.Create(ctx, "n")) }},
		{"GET /v1/artifacts?limit=100&name=n", func() error { return second(c.Artifacts.Find(ctx, "n")) }},
		{"GET /v1/volumes/vol_1", func() error { return second(c.Volumes.Get(ctx, "vol_1")) }},
		{"GET /v1/artifacts?limit=100", func() error { return walk(c.Artifacts.List(ctx)) }},
		{"GET /v1/volumes/vol_1/versions?limit=100", func() error { return walk(c.Volumes.Versions(ctx, "vol_1")) }},
		{"GET /v1/volumes/vol_1/versions/v2", func() error { return second(c.Volumes.Version(ctx, "vol_1", "v2")) }},
		{"GET /v1/volumes/vol_1/versions/latest/files?limit=100", func() error { return walk(c.Volumes.Files(ctx, "vol_1", "")) }},
		{"GET /v1/volumes/vol_1/diff?from=v1&limit=100&to=v2", func() error { return walk(c.Volumes.Diff(ctx, "vol_1", "v1", "v2")) }},
		{"GET /v1/volumes/vol_1/versions/v2/files/a%20b/c%3F.txt", func() error {
			f, err := c.Volumes.ReadFile(ctx, "vol_1", "v2", "a b/c?.txt")
			if err == nil {
				err = f.Close()
			}
			return err
		}},
		{"DELETE /v1/volumes/vol_1", func() error { return c.Volumes.Delete(ctx, "vol_1") }},
		{"GET /v1/sessions/sess_1", func() error { return second(c.Sessions.Get(ctx, "sess_1")) }},
		{"GET /v1/sessions?limit=100", func() error { return walk(c.Sessions.List(ctx)) }},
		{"GET /v1/checkpoints/chk_1", func() error { return second(c.Checkpoints.Get(ctx, "chk_1")) }},
		{`POST /v1/tokens {"name":"n"}`, func() error { return second(c.Tokens.Create(ctx, stint.NewToken{Name: "n"})) }},
		{"GET /v1/tokens/tok_1", func() error { return second(c.Tokens.Get(ctx, "tok_1")) }},
		{"GET /v1/tokens?limit=100", func() error { return walk(c.Tokens.List(ctx)) }},
		{"DELETE /v1/tokens/tok_1", func() error { return c.Tokens.Revoke(ctx, "tok_1") }},
		{`PUT /v1/secrets/K {"value":"v"}`, func() error { return second(c.Secrets.Put(ctx, "K", stint.NewSecret{Value: "v"})) }},
		{`PUT /v1/secrets/K {"value":"v","hosts":["a.test"],"agents":[]}`, func() error {
			return second(c.Secrets.Put(ctx, "K", stint.NewSecret{Value: "v", Hosts: []string{"a.test"}, Agents: []string{}}))
		}},
		{"GET /v1/secrets/K", func() error { return second(c.Secrets.Get(ctx, "K")) }},
		{"GET /v1/secrets?limit=100", func() error { return walk(c.Secrets.List(ctx)) }},
		{"DELETE /v1/secrets/K", func() error { return c.Secrets.Delete(ctx, "K") }},
	}
	for _, tt := range calls {
		got = nil
		if err := tt.do(); err != nil {
			t.Errorf("%s: %v", tt.want, err)
		}
		if diff := cmp.Diff([]string{tt.want}, got); diff != "" {
			t.Errorf("request (-want +got):\n%s", diff)
		}
	}
}

func second[T any](_ T, err error) error { return err }

func walk[T any](seq func(func(T, error) bool)) error {
	var first error
	seq(func(_ T, err error) bool { first = err; return err == nil })
	return first
}

func TestSegmentsThatWouldChangeThePathAreRefused(t *testing.T) {
	t.Parallel()
	c := serve(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a request was sent") }))
	for _, id := range []string{"", ".", ".."} {
		if _, err := c.Runs.Get(t.Context(), id); err == nil {
			t.Errorf("identifier %q was accepted", id)
		}
	}
}

func TestUnreachableServer(t *testing.T) {
	t.Parallel()
	const unused = "http://127.0.0.1:1" // no server listens on this port
	c, err := client.New(client.Options{URL: unused, Backoff: time.Microsecond, Attempts: 2})
	if err != nil {
		t.Fatal(err)
	}
	if _, err = c.Me(t.Context()); err == nil || !strings.Contains(err.Error(), unused) {
		t.Errorf("error is %v, want one that names %s", err, unused)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err = c.Me(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v, want %v", err, context.Canceled)
	}
}

func TestFindReportsTheMissingName(t *testing.T) {
	t.Parallel()
	c := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, 200, `{"data":[{"id":"x","name":"other"}],"pagination":{"hasMore":false,"nextCursor":null}}`)
	}))
	for _, err := range []error{second(c.Agents.Find(t.Context(), "mine")), second(c.Volumes.Find(t.Context(), "mine"))} {
		if !client.IsCode(err, stint.CodeResourceNotFound) || !strings.Contains(err.Error(), "'mine'") {
			t.Errorf("error is %v", err)
		}
	}
}
