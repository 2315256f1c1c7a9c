package api_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/auth"
	"github.com/stint-dev/stint/internal/http/api"
	"github.com/stint-dev/stint/internal/runs"
)

func key(k string) map[string]string { return map[string]string{"Idempotency-Key": k} }

// twice sends a request twice and checks that the second response is a replay.
func (w *world) twice(r request, status int) response {
	w.Helper()
	first, second := w.do(r), w.do(r)
	if first.StatusCode != status || first.Header.Get("Idempotency-Replayed") != "" {
		w.Errorf("%s %s returned %d %s (replayed %q), want %d", r.method, r.path, first.StatusCode, first.body, first.Header.Get("Idempotency-Replayed"), status)
	}
	if second.StatusCode != status || second.Header.Get("Idempotency-Replayed") != "true" {
		w.Errorf("%s %s again returned %d %s (replayed %q)", r.method, r.path, second.StatusCode, second.body, second.Header.Get("Idempotency-Replayed"))
	}
	w.diff("body of the replay", string(first.body), string(second.body))
	w.diff("location of the replay", first.Header.Get("Location"), second.Header.Get("Location"))
	return first
}

func TestReplays(t *testing.T) {
	w := newWorld(t)
	words := w.fixture()
	run := `{"agent":"reviewer","prompt":"once"}`
	w.twice(request{method: "POST", path: "/v1/runs", body: run, header: key("k")}, 202)
	w.twice(request{method: "POST", path: "/v1/runs/" + words["run"] + "/cancel", header: key("k")}, 200)
	w.twice(request{method: "POST", path: "/v1/runs/" + words["run"] + "/stream-token", header: key("k")}, 201)
	w.twice(request{method: "POST", path: "/v1/agents", body: `{"name":"new","framework":"shell"}`, header: key("k")}, 201)
	w.twice(request{method: "POST", path: "/v1/agents/" + words["agent"] + "/versions", body: `{"framework":"assistant"}`, header: key("k")}, 201)
	w.twice(request{method: "POST", path: "/v1/volumes", body: `{"name":"new"}`, header: key("k")}, 201)
	w.twice(request{method: "POST", path: "/v1/artifacts", body: `{"name":"new"}`, header: key("k")}, 201)
	w.twice(request{method: "POST", path: "/v1/volumes/" + words["volume"] + "/versions", body: archive(t, map[string]string{"a": "2"}), header: key("k")}, 201)
	token := w.twice(request{method: "POST", path: "/v1/tokens", body: `{"name":"ci"}`, header: key("k")}, 201)
	var created stint.Token
	w.decode(token, 201, &created)
	if a := w.do(request{method: "GET", path: "/v1/me", token: created.Secret}); a.StatusCode != 200 {
		t.Errorf("the replayed token returned %d", a.StatusCode)
	}
	w.twice(request{method: "POST", path: "/v1/runs", body: `{"agent":"nobody","prompt":"x"}`, header: key("refused"), hostile: true}, 404)

	var list stint.Page[stint.RunSummary]
	w.get("/v1/runs?limit=100", &list)
	count := 0
	for _, r := range list.Data {
		if r.Prompt == "once" {
			count++
		}
	}
	if count != 1 {
		t.Errorf("%d runs were created, want 1", count)
	}
}

func TestIdempotencyKeys(t *testing.T) {
	w := newWorld(t)
	words := w.fixture()
	post := func(name, k, path, body string, status int, has ...string) row {
		return row{name, "POST", path, "", key(k), body, status, has, nil}
	}
	reused := []string{`"type":"conflict_error","code":"idempotency_key_reused"`}
	w.run(t, words, []row{
		post("first", "k", "/v1/volumes", `{"name":"one"}`, 201),
		post("another body", "k", "/v1/volumes", `{"name":"two"}`, 409, reused...),
		post("other white space", "k", "/v1/volumes", `{"name": "one"}`, 409, reused...),
		post("another query", "k", "/v1/volumes?x=1", `{"name":"one"}`, 409, reused...),
		post("another route", "k", "/v1/artifacts", `{"name":"one"}`, 201),
		{"another organisation", "POST", "/v1/volumes", "other", key("k"), `{"name":"one"}`, 201, nil, nil},
		{"another path of the route", "POST", "/v1/runs/{run}/stream-token", "", key("k"), nil, 201, nil, nil},
		{"another path with the same key", "POST", "/v1/runs/{done}/stream-token", "", key("k"), nil, 409, reused, nil},
		post("the longest", strings.Repeat("k", 255), "/v1/volumes", `{"name":"long"}`, 201),
		post("too long", strings.Repeat("k", 256), "/v1/volumes", `{"name":"x"}`, 400, invalid, `"param":"Idempotency-Key"`),
		post("a space", "a b", "/v1/volumes", `{"name":"x"}`, 400, invalid),
		post("no ASCII", "schlüssel", "/v1/volumes", `{"name":"x"}`, 400, invalid),
	})
	for _, keys := range [][]string{{""}, {"a", "b"}, {"\x7f"}} {
		req := w.build(t.Context(), request{method: "POST", path: "/v1/volumes", body: `{"name":"x"}`, hostile: true})
		req.Header["Idempotency-Key"] = keys
		resp, err := w.client.Do(req)
		if err != nil {
			continue // the client itself refuses a control character
		}
		if resp.Body.Close(); resp.StatusCode != 400 {
			t.Errorf("the keys %q returned %d", keys, resp.StatusCode)
		}
	}
	w.pass(25 * time.Hour)
	w.run(t, words, []row{post("forgotten after 24 hours", "k", "/v1/volumes", `{"name":"three"}`, 201)})
}

// TestConcurrentRequestsWithSameKey checks that one of many concurrent requests creates
// a run, and that the others receive its response or idempotency_key_in_use.
func TestConcurrentRequestsWithSameKey(t *testing.T) {
	w := newWorld(t)
	w.newAgent("reviewer")
	ids := make([]string, 16)
	var all sync.WaitGroup
	for i := range ids {
		all.Go(func() {
			for {
				a := w.do(request{method: "POST", path: "/v1/runs", body: `{"agent":"reviewer","prompt":"x"}`, header: key("k")})
				if a.StatusCode == http.StatusConflict && a.errorOf() == "conflict_error idempotency_key_in_use" {
					continue
				}
				ids[i] = a.Header.Get("Location")
				return
			}
		})
	}
	all.Wait()
	for _, id := range ids {
		if id != ids[0] || id == "" {
			t.Fatalf("the responses contain %v", ids)
		}
	}
}

// failingRuns is an api.Runs. Its Create calls how, if set, and creates no run if how
// returns an error.
type failingRuns struct {
	api.Runs
	mu  sync.Mutex // guards how
	how func() error
}

func (b *failingRuns) set(how func() error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.how = how
}

func (b *failingRuns) Create(ctx context.Context, c auth.Caller, n stint.NewRun, o runs.CreateOptions) (stint.Run, error) {
	b.mu.Lock()
	how := b.how
	b.mu.Unlock()
	if how != nil {
		if err := how(); err != nil {
			return stint.Run{}, err
		}
	}
	return b.Runs.Create(ctx, c, n, o)
}

func TestServerErrorsAreNotReplayed(t *testing.T) {
	b := &failingRuns{}
	w := newWorld(t, func(c *api.Config) { b.Runs = c.Runs; c.Runs = b })
	w.newAgent("reviewer")
	r := request{method: "POST", path: "/v1/runs", body: `{"agent":"reviewer","prompt":"x"}`, header: key("k"), failing: true}
	for name, how := range map[string]func() error{
		"error": func() error { return errors.New("pq: relation \"runs\" at /srv/stint/store.go:12") },
		"panic": func() error { panic("secret of /srv/stint") },
		"busy": func() error {
			return &stint.Error{Kind: stint.KindUnavailable, Code: stint.CodeUnavailable, Message: "Busy."}
		},
		"too many": func() error {
			return &stint.Error{Kind: stint.KindRateLimited, Code: stint.CodeQueueFull, Message: "Full."}
		},
	} {
		b.set(how)
		a := w.do(r)
		if a.StatusCode < 429 || strings.Contains(string(a.body), "/srv") || a.Header.Get("X-Request-Id") == "" {
			t.Errorf("%s returned %d %s", name, a.StatusCode, a.body)
		}
		if id := a.Header.Get("X-Request-Id"); a.StatusCode == 500 && !strings.Contains(w.log.String(), id) {
			t.Errorf("%s: the log does not contain %s", name, id)
		}
		if retry := a.Header.Get("Retry-After"); (retry == "") != (a.StatusCode == 500) {
			t.Errorf("%s: Retry-After is %q", name, retry)
		}
	}
	b.set(nil)
	r.failing = false
	w.twice(r, 202)
}

// TestKeyTakenOverDuringRequest checks that a slow request does not create a second
// run after another request has taken over its key.
func TestKeyTakenOverDuringRequest(t *testing.T) {
	b := &failingRuns{}
	w := newWorld(t, func(c *api.Config) { b.Runs = c.Runs; c.Runs = b })
	w.newAgent("reviewer")
	r := request{method: "POST", path: "/v1/runs", body: `{"agent":"reviewer","prompt":"x"}`, header: key("k")}
	var quick response
	b.set(func() error {
		b.set(nil)
		w.pass(2 * time.Minute)
		quick = w.do(r)
		return nil
	})
	slow := w.do(r)
	if slow.StatusCode != http.StatusConflict || slow.errorOf() != "conflict_error idempotency_key_in_use" {
		t.Errorf("the slow request returned %d %s", slow.StatusCode, slow.body)
	}
	again := w.do(r)
	if quick.StatusCode != 202 || again.Header.Get("Location") != quick.Header.Get("Location") {
		t.Errorf("the quick request returned %d %s, and again %s", quick.StatusCode, quick.body, again.body)
	}
}

// TestKeyOfRefusedUpload checks that a refused upload can be repeated with its key.
func TestKeyOfRefusedUpload(t *testing.T) {
	w := newWorld(t)
	words := w.fixture()
	whole := archive(t, map[string]string{"a": "2"})
	r := request{method: "POST", path: "/v1/volumes/" + words["volume"] + "/versions", body: make([]byte, len(whole)), header: key("k"), hostile: true}
	copy(r.body.([]byte), whole[:len(whole)-1500])
	r.body.([]byte)[0] = 'x' // the checksum of the tar header is wrong, and the length is the same
	if a := w.do(r); a.StatusCode != 400 {
		t.Errorf("a broken upload returned %d %s", a.StatusCode, a.body)
	}
	r.body = whole
	w.twice(r, 201)
}

func TestPreferWait(t *testing.T) {
	w := newWorld(t)
	w.newAgent("reviewer")
	prefer := func(v string) map[string]string {
		return map[string]string{"Prefer": v, "Idempotency-Key": strings.ReplaceAll(v, " ", "_")}
	}
	done := make(chan response)
	r := request{method: "POST", path: "/v1/runs", body: `{"agent":"reviewer","prompt":"x"}`, header: prefer("respond-async, wait=60")}
	go func() { done <- w.do(r) }()
	w.claim().finish(stint.Completed)
	a := <-done
	var run stint.Run
	w.decode(a, http.StatusAccepted, &run)
	if run.Status != stint.Completed || run.Volumes != nil || a.Header.Get("Preference-Applied") != "wait" {
		t.Errorf("the response is %s, applied %q", a.body, a.Header.Get("Preference-Applied"))
	}
	again := w.do(r)
	w.diff("body of the replay", string(a.body), string(again.body))

	go func() {
		r := r
		r.header = prefer("wait=60; x=y")
		done <- w.do(r)
	}()
	job := w.claim() // the request may begin to wait before or after this
	w.stop()
	w.decode(<-done, http.StatusAccepted, &run)
	if run.Status == stint.Completed {
		t.Error("the run is completed, although it was not finished")
	}
	job.finish(stint.Completed)
	for _, ignored := range []string{"wait=0", "wait=-1", "wait=x", "wait", "handling=strict"} {
		r.header = prefer(ignored)
		a := w.do(r)
		if a.StatusCode != http.StatusAccepted || a.Header.Get("Preference-Applied") != "" {
			t.Errorf("Prefer: %s returned %d, applied %q", ignored, a.StatusCode, a.Header.Get("Preference-Applied"))
		}
	}
}

// TestKeysOfOtherUsers checks that a response, which can contain secrets, is replayed
// only to the user or run that sent the first request.
func TestKeysOfOtherUsers(t *testing.T) {
	w := newWorld(t)
	w.newAgent("reviewer")
	create := request{method: "POST", path: "/v1/tokens", body: `{"name":"ci"}`, header: key("k")}
	w.twice(create, 201)
	other := create
	other.token = w.login(ownOrg, "bob")
	if a := w.do(other); a.StatusCode != 409 || a.errorOf() != "conflict_error idempotency_key_reused" {
		t.Errorf("another user's request with the same key returned %d %s", a.StatusCode, a.body)
	}
	again := create
	again.token = w.login(ownOrg, "ann")
	if a := w.do(again); a.StatusCode != 201 || a.Header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("the same user with another token got %d %s", a.StatusCode, a.body)
	}

	w.newRun("reviewer", "first")
	w.newRun("reviewer", "second")
	start := request{method: "POST", path: "/v1/runs", body: `{"agent":"reviewer","prompt":"x"}`, header: key("k"), token: w.claim().runToken(0)}
	w.twice(start, 202)
	start.token = w.claim().runToken(0)
	if a := w.do(start); a.errorOf() != "conflict_error idempotency_key_reused" {
		t.Errorf("another run's request with the same key returned %d %s", a.StatusCode, a.body)
	}
}
