package contract_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/testkit/apitest"
)

// waitLimit is the maximum time to wait for an event, even on a busy machine.
const waitLimit = 3 * time.Minute

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func decode(t testing.TB, raw []byte, into any) {
	t.Helper()
	if err := json.Unmarshal(raw, into); err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
}

func readAll(t testing.TB, r io.Reader) []byte {
	t.Helper()
	raw, err := io.ReadAll(r)
	check(t, err)
	return raw
}

// object is a JSON object.
type object = map[string]any

// request describes an HTTP request.
type request struct {
	method, path string
	token        string // "" means the owner's token, "-" means no token
	header       map[string]string
	body         any  // string, []byte, and io.Reader are sent unchanged, other values as JSON
	undocumented bool // the contract does not allow the request
}

type response struct {
	*http.Response
	body []byte
}

func (w *tenant) build(ctx context.Context, r request) *http.Request {
	w.Helper()
	var body io.Reader = http.NoBody
	contentType := ""
	switch b := r.body.(type) {
	case nil:
	case string:
		body, contentType = strings.NewReader(b), "application/json"
	case []byte:
		body, contentType = bytes.NewReader(b), "application/x-tar"
	case io.Reader:
		body, contentType = b, "application/x-tar"
	default:
		raw, err := json.Marshal(b)
		check(w, err)
		body, contentType = bytes.NewReader(raw), "application/json"
	}
	if r.undocumented {
		ctx = apitest.AllowInvalid(ctx)
	}
	at := r.path
	if !strings.HasPrefix(at, "http") {
		at = w.host.url + at
	}
	req, err := http.NewRequestWithContext(ctx, r.method, at, body)
	check(w, err)
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

// identifier matches random identifiers, in which any word can occur by chance.
var identifier = regexp.MustCompile(`\b[a-z]+[0-9]*_[0-9a-z]{16,}\b`)

// do sends a request and returns the response. It fails the test if an error response
// contains internal details of the server.
func (w *tenant) do(r request) response {
	w.Helper()
	resp, err := w.client.Do(w.build(w.Context(), r))
	if err != nil {
		w.Fatalf("%s %s: %v", r.method, r.path, err)
	}
	defer resp.Body.Close()
	a := response{resp, readAll(w, resp.Body)}
	if a.StatusCode >= 400 {
		said := identifier.ReplaceAll(a.body, nil)
		for _, inside := range []string{w.host.data, "/tmp/stint", ".go:", "goroutine", "SQL", "constraint", "pgx", "modernc"} {
			if bytes.Contains(said, []byte(inside)) {
				w.Errorf("%s %s shows internal details of the server: %s", r.method, r.path, a.body)
			}
		}
	}
	return a
}

// must sends a request, checks the status of the response, and decodes the JSON body
// into the value that into points to, unless into is nil.
func (w *tenant) must(status int, r request, into any) {
	w.Helper()
	a := w.do(r)
	if a.StatusCode != status {
		w.Fatalf("%s %s returned %d %s, want %d", r.method, r.path, a.StatusCode, a.body, status)
	}
	if into != nil {
		decode(w, a.body, into)
	}
}

func (w *tenant) get(path string, into any) {
	w.Helper()
	w.must(http.StatusOK, request{method: "GET", path: path}, into)
}

// apiError is the error in the body of a response.
type apiError struct {
	Type, Code, Message, Param string
	Details                    []struct{ Param, Code, Message string }
}

func (a response) apiError() apiError {
	var b struct{ Error apiError }
	_ = json.Unmarshal(a.body, &b) // b stays empty if the body is not an error
	return b.Error
}

// wantError sends a request and checks that the response is an error with this status,
// type, and code. The message must contain the words.
func (w *tenant) wantError(r request, status int, typeAndCode string, words ...string) {
	w.Helper()
	r.undocumented = true
	a := w.do(r)
	f := a.apiError()
	if got := f.Type + " " + f.Code; a.StatusCode != status || got != typeAndCode {
		w.Errorf("%s %s %v returned %d %s, want %d %s", r.method, r.path, r.body, a.StatusCode, a.body, status, typeAndCode)
		return
	}
	for _, word := range words {
		if !strings.Contains(f.Message, word) {
			w.Errorf("%s %s: the message lacks %q: %s", r.method, r.path, word, f.Message)
		}
	}
}

// Types and codes of errors, separated by a space.
const (
	invalid   = "invalid_request_error invalid_parameter"
	missing   = "invalid_request_error missing_parameter"
	badState  = "invalid_request_error invalid_state"
	tooLarge  = "invalid_request_error request_too_large"
	badMedia  = "invalid_request_error unsupported_media_type"
	notFound  = "not_found_error resource_not_found"
	exists    = "conflict_error resource_already_exists"
	badKey    = "authentication_error invalid_api_key"
	badScope  = "permission_error insufficient_scope"
	keyReused = "conflict_error idempotency_key_reused"
	keyInUse  = "conflict_error idempotency_key_in_use"
	badHead   = "conflict_error version_conflict"
)

// agent creates an agent, by default with the framework shell. more contains further
// members of the definition.
func (w *tenant) agent(name string, more object) (a stint.Agent) {
	w.Helper()
	w.must(http.StatusCreated, request{method: "POST", path: "/v1/agents", body: definition(name, more)}, &a)
	return a
}

func definition(name string, more object) object {
	d := object{"framework": "shell"}
	if name != "" {
		d["name"] = name
	}
	maps.Copy(d, more)
	return d
}

// create creates a run, by default of the agent "shell" with the prompt "true".
func (w *tenant) create(body object) (r stint.Run) {
	w.Helper()
	w.must(http.StatusAccepted, request{method: "POST", path: "/v1/runs", body: w.newRun(body)}, &r)
	return r
}

func (w *tenant) newRun(body object) object {
	all := object{"prompt": "true"}
	maps.Copy(all, body)
	for _, origin := range []string{"agent", "agentId", "sessionId", "checkpointId"} {
		if _, ok := all[origin]; ok {
			return all
		}
	}
	all["agent"] = "shell"
	return all
}

// waitUntil waits until done returns true, for at most waitLimit. The text in what
// names the awaited event in the failure message.
func (w *tenant) waitUntil(what string, done func() bool) {
	w.Helper()
	deadline := time.Now().Add(waitLimit)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		if time.Now().After(deadline) {
			w.Fatalf("%s did not happen within %s", what, waitLimit)
		}
		<-tick.C
	}
}

func (w *tenant) read(id string) (r stint.Run) {
	w.Helper()
	w.get("/v1/runs/"+id, &r)
	return r
}

// awaitStatus waits until the run has the status, and returns the run. It ends the test
// if the run ends with another status.
func (w *tenant) awaitStatus(id string, status stint.Status) (r stint.Run) {
	w.Helper()
	w.waitUntil(fmt.Sprintf("%s %s", id, status), func() bool {
		r = w.read(id)
		if r.Status.Final() && r.Status != status {
			text := ""
			if r.Error != nil {
				text = *r.Error
			}
			w.Fatalf("%s ended %s, not %s: %s", id, r.Status, status, text)
		}
		return r.Status == status
	})
	return r
}

// run creates a run, waits until it has completed, and returns it.
func (w *tenant) run(body object) stint.Run {
	w.Helper()
	return w.awaitStatus(w.create(body).ID, stint.Completed)
}

// runOutput creates a run, waits until it has completed, and returns its standard
// output and the run.
func (w *tenant) runOutput(body object) (string, stint.Run) {
	w.Helper()
	r := w.run(body)
	return w.output(r.ID), r
}

// output returns the standard output of a run so far.
func (w *tenant) output(id string) string {
	w.Helper()
	var out strings.Builder
	for _, e := range w.journal(id) {
		if e.Type != stint.EventOutput {
			continue
		}
		var o stint.OutputData
		decode(w, e.Data, &o)
		if o.Stream == "stdout" {
			out.WriteString(o.Content)
		}
	}
	return out.String()
}

// startRun creates a run that writes "ready" and then executes the script in
// body["prompt"]. It returns the run as soon as "ready" has arrived. It modifies body.
func (w *tenant) startRun(body object) stint.Run {
	w.Helper()
	script, _ := body["prompt"].(string)
	body["prompt"] = "echo ready\n" + script
	r := w.create(body)
	w.waitUntil(r.ID+" ready", func() bool {
		if s := w.read(r.ID).Status; s.Final() {
			w.Fatalf("%s ended %s before it was ready", r.ID, s)
		}
		return strings.HasPrefix(w.output(r.ID), "ready")
	})
	return w.read(r.ID)
}

// journal returns all events of a run so far.
func (w *tenant) journal(id string) []stint.Event {
	w.Helper()
	return list[stint.Event](w, "/v1/runs/"+id+"/events", map[string]string{"Accept": "application/json"})
}

// list requests all pages of a list and returns their items.
func list[T any](w *tenant, path string, header map[string]string) (all []T) {
	w.Helper()
	separator := "?"
	if strings.Contains(path, "?") {
		separator = "&"
	}
	cursor := ""
	for {
		var page stint.Page[T]
		w.must(http.StatusOK, request{method: "GET", path: path + separator + "limit=100" + cursor, header: header}, &page)
		all = append(all, page.Data...)
		if !page.Pagination.HasMore {
			return all
		}
		cursor = "&cursor=" + *page.Pagination.NextCursor
	}
}

func (w *tenant) cancel(id string) (r stint.Run) {
	w.Helper()
	w.must(http.StatusOK, request{method: "POST", path: "/v1/runs/" + id + "/cancel"}, &r)
	return r
}

func (w *tenant) equal(what string, want, got any) {
	w.Helper()
	if d := cmp.Diff(want, got); d != "" {
		w.Errorf("%s (-want +got):\n%s", what, d)
	}
}
