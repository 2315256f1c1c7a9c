package api_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/feed"
	"github.com/stint-dev/stint/internal/http/api"
	"github.com/stint-dev/stint/internal/notify/inproc"
	"github.com/stint-dev/stint/internal/store"
)

// clientStream is the client's side of an event stream.
type clientStream struct {
	w    *world
	resp *http.Response
	text *bufio.Reader
}

// frame is one event of a stream.
type frame struct{ Event, Data, ID string }

func (w *world) follow(r request) *clientStream {
	w.Helper()
	r.method = "GET"
	ctx, cancel := context.WithTimeout(w.Context(), 2*time.Minute)
	w.Cleanup(cancel)
	resp, err := w.client.Do(w.build(ctx, r))
	if err != nil {
		w.Fatal(err)
	}
	s := &clientStream{w, resp, bufio.NewReader(resp.Body)}
	w.Cleanup(func() { resp.Body.Close() })
	return s
}

// next reads one event. It returns false at the end of the stream. A heartbeat before
// the first event has no ID; next returns it with the ID 0.
func (s *clientStream) next() (frame, bool) {
	s.w.Helper()
	var lines []string
	for {
		line, err := s.text.ReadString('\n')
		if err == io.EOF && line == "" && len(lines) == 0 {
			return frame{}, false
		}
		if err != nil {
			s.w.Fatalf("the stream ended after %q: %v", lines, err)
		}
		if line == "\n" {
			break
		}
		lines = append(lines, strings.TrimSuffix(line, "\n"))
	}
	var f frame
	if len(lines) == 2 && lines[0] == "event: heartbeat" {
		lines = append(lines, "id: 0")
	}
	if len(lines) == 3 {
		f.Event, _ = strings.CutPrefix(lines[0], "event: ")
		f.Data, _ = strings.CutPrefix(lines[1], "data: ")
		f.ID, _ = strings.CutPrefix(lines[2], "id: ")
	}
	if f.Event == "" || f.Data == "" || f.ID == "" {
		s.w.Fatalf("invalid event %q", lines)
	}
	return f, true
}

func (s *clientStream) all() (all []frame) {
	s.w.Helper()
	for {
		f, ok := s.next()
		if !ok {
			return all
		}
		all = append(all, f)
	}
}

func (s *clientStream) mustNext(event string) frame {
	s.w.Helper()
	f, ok := s.next()
	if !ok || f.Event != event {
		s.w.Fatalf("the stream returned %+v, %v, want %s", f, ok, event)
	}
	return f
}

func (w *world) diff(what string, want, got any) {
	w.Helper()
	if d := cmp.Diff(want, got); d != "" {
		w.Errorf("%s (-want +got):\n%s", what, d)
	}
}

// TestEventsAreTheSameInEveryForm compares live, resumed, and replayed streams and the
// list of events.
func TestEventsAreTheSameInEveryForm(t *testing.T) {
	w := newWorld(t)
	w.newAgent("reviewer")
	run := w.newRun("reviewer", "x")
	path := "/v1/runs/" + run.ID + "/events"
	live := w.follow(request{path: path})
	live.mustNext("status")
	j := w.claim()
	live.mustNext("status")
	j.write("one\n", "two \u2028 \"quoted\"\n")
	live.mustNext("output")
	live.mustNext("output")
	early := w.follow(request{path: path, header: map[string]string{"Last-Event-ID": "3"}})
	early.mustNext("output")
	j.write("three\n")
	j.finish(stint.Failed)

	rest := live.all()
	replay := w.follow(request{path: path}).all()
	var kinds, ids []string
	for _, f := range replay {
		kinds, ids = append(kinds, f.Event), append(ids, f.ID)
	}
	w.diff("types", []string{"status", "status", "output", "output", "output", "error", "status", "complete"}, kinds)
	w.diff("identifiers", []string{"1", "2", "3", "4", "5", "6", "7", "8"}, ids)
	w.diff("live", replay[4:], rest)
	w.diff("resumed while running", replay[4:], early.all())
	for i := range replay {
		header := map[string]string{"Last-Event-ID": fmt.Sprint(i + 1)}
		query := w.follow(request{path: path + "?lastEventId=" + fmt.Sprint(i+1)})
		if query.resp.StatusCode != http.StatusOK {
			t.Errorf("by query after %d: status %d", i+1, query.resp.StatusCode)
		}
		w.diff("resumed by query", append([]frame(nil), replay[i+1:]...), query.all())
		if i+1 < len(replay) {
			w.diff("resumed by header", replay[i+1:], w.follow(request{path: path, header: header}).all())
		} else if s := w.follow(request{path: path, header: header}); s.resp.StatusCode != http.StatusNoContent {
			t.Errorf("a reconnect after the end returned %d", s.resp.StatusCode)
		}
	}
	both := w.follow(request{path: path + "?lastEventId=1", header: map[string]string{"Last-Event-ID": "7"}})
	w.diff("the header takes precedence", replay[7:], both.all())
	w.diff("as a list", replay, w.eventList(path))
}

// eventList returns all events of the paged list. It checks the times in their data.
func (w *world) eventList(path string) (all []frame) {
	w.Helper()
	cursor := ""
	for {
		a := w.do(request{method: "GET", path: path + "?limit=3" + cursor, header: map[string]string{"Accept": "application/json"}})
		var page stint.Page[stint.Event]
		w.decode(a, http.StatusOK, &page)
		for _, e := range page.Data {
			all = append(all, frame{string(e.Type), string(e.Data), fmt.Sprint(e.Seq)})
			var data struct{ Timestamp string }
			if err := json.Unmarshal(e.Data, &data); err != nil || data.Timestamp != e.At.String() {
				w.Errorf("event %d of %s has the data %s", e.Seq, e.At, e.Data)
			}
		}
		if !page.Pagination.HasMore {
			return all
		}
		cursor = "&cursor=" + *page.Pagination.NextCursor
	}
}

func TestEventParameters(t *testing.T) {
	w := newWorld(t)
	words := w.fixture()
	last := func(id string) map[string]string { return map[string]string{"Last-Event-ID": id} }
	accept := func(v string) map[string]string { return map[string]string{"Accept": v} }
	at := "/v1/runs/{done}/events"
	w.run(t, words, []row{
		{"never issued", "GET", at, "", last("99"), nil, 400, []string{invalid, `"param":"lastEventId"`}, nil},
		{"never issued, by query", "GET", at + "?lastEventId=99", "", nil, nil, 400, []string{invalid}, nil},
		{"zero", "GET", at, "", last("0"), nil, 400, []string{invalid}, nil},
		{"negative", "GET", at, "", last("-1"), nil, 400, []string{invalid}, nil},
		{"leading zero", "GET", at, "", last("01"), nil, 400, []string{invalid}, nil},
		{"a word", "GET", at, "", last("latest"), nil, 400, []string{invalid}, nil},
		{"too large", "GET", at, "", last("9223372036854775808"), nil, 400, []string{invalid}, nil},
		{"the header takes precedence", "GET", at + "?lastEventId=1", "", last("x"), nil, 400, []string{invalid}, nil},
		{"html", "GET", at, "", accept("text/html"), nil, 406, []string{`"code":"not_acceptable"`}, nil},
		{"nothing accepted", "GET", at, "", accept("text/event-stream;q=0, application/json;q=0"), nil, 406, nil, nil},
		{"json", "GET", at, "", accept("application/json"), nil, 200, []string{`{"data":[{"id":"1","type":"status"`}, nil},
		{"json preferred", "GET", at, "", accept("text/event-stream;q=0.5, application/json"), nil, 200, []string{`{"data":[`}, nil},
		{"any application type", "GET", at, "", accept("application/*"), nil, 200, []string{`{"data":[`}, nil},
		{"anything", "GET", at, "", accept("*/*"), nil, 200, []string{"event: status\n"}, nil},
		{"both equally", "GET", at, "", accept("application/json, text/event-stream"), nil, 200, []string{"event: status\n"}, nil},
		{"no header", "GET", at, "", nil, nil, 200, []string{"event: status\n", "event: complete\n"}, nil},
		{"json from an event on", "GET", at + "?lastEventId=2", "", accept("application/json"), nil, 200, []string{`{"data":[{"id":"3"`}, nil},
	})
}

func TestStreamHeaders(t *testing.T) {
	w := newWorld(t)
	words := w.fixture()
	s := w.follow(request{path: "/v1/runs/" + words["done"] + "/events"})
	for name, want := range map[string]string{
		"Content-Type": "text/event-stream", "Cache-Control": "no-store", "X-Accel-Buffering": "no", "X-Api-Version": "v1", "Content-Length": "",
	} {
		if got := s.resp.Header.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	a := w.do(request{method: "HEAD", path: "/v1/runs/" + words["run"] + "/events"}) // must not follow the pending run
	if a.StatusCode != http.StatusOK || a.Header.Get("Content-Type") != "text/event-stream" {
		t.Errorf("HEAD returned %d %q", a.StatusCode, a.Header.Get("Content-Type"))
	}
}

func TestHeartbeats(t *testing.T) {
	w := newWorld(t, func(c *api.Config) { c.Heartbeat = 20 * time.Millisecond })
	w.newAgent("reviewer")
	run := w.newRun("reviewer", "x")
	s := w.follow(request{path: "/v1/runs/" + run.ID + "/events"})
	w.diff("first", frame{"status", `{"status":"pending"`, "1"}, withoutTime(s.skipHeartbeats()))
	for range 3 {
		f := s.mustNext("heartbeat")
		var data struct{ Timestamp stint.Time }
		if err := json.Unmarshal([]byte(f.Data), &data); err != nil || f.ID != "1" || data.Timestamp.IsZero() {
			t.Errorf("heartbeat %+v, %v", f, err)
		}
	}
	j := w.claim()
	seen := s.skipHeartbeats()
	w.diff("after silence", frame{"status", `{"status":"running"`, "2"}, withoutTime(seen))
	if f := s.mustNext("heartbeat"); f.ID != "2" {
		t.Errorf("the heartbeat has the ID %s", f.ID)
	}
	j.finish(stint.Completed)
	for f := s.skipHeartbeats(); f.Event != "complete"; f = s.skipHeartbeats() {
	}
	if f, ok := s.next(); ok {
		t.Errorf("%+v was received after the end", f)
	}
}

func (s *clientStream) skipHeartbeats() frame {
	s.w.Helper()
	for {
		f, ok := s.next()
		if !ok {
			s.w.Fatal("the stream ended")
		}
		if f.Event != "heartbeat" {
			return f
		}
	}
}

// blockingJournal is a journal whose first read blocks until its context ends.
type blockingJournal struct {
	store.Journal
	first context.Context
}

func (b *blockingJournal) Events(ctx context.Context, run string, after int64, limit int) ([]stint.Event, error) {
	if b.first == nil {
		b.first = ctx
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return b.Journal.Events(ctx, run, after, limit)
}

// TestSlowJournalRead checks that a stream interrupts a read that is slower than the
// heartbeat, and continues.
func TestSlowJournalRead(t *testing.T) {
	var journal *blockingJournal
	w := newWorld(t, func(c *api.Config) {
		c.Heartbeat = 20 * time.Millisecond
		journal = &blockingJournal{Journal: c.Idempotency.(store.Journal)}
		c.Feed = feed.New(journal, inproc.New(), false)
	})
	w.newAgent("reviewer")
	s := w.follow(request{path: "/v1/runs/" + w.newRun("reviewer", "x").ID + "/events"})
	if f := s.skipHeartbeats(); f.Event != "status" {
		t.Errorf("the stream begins with %+v", f)
	}
	if journal.first.Err() == nil {
		t.Error("the context of the first read has not ended")
	}
}

// streamEnds contains the events that end a stream of the token.
var streamEnds = map[string]func(w *world, tokenID string){
	"when the token is revoked": func(w *world, tokenID string) {
		if err := w.auth.RevokeToken(w.Context(), w.caller, tokenID); err != nil {
			w.Fatal(err)
		}
	},
	"when the token expires": func(w *world, _ string) { w.pass(100 * 24 * time.Hour) },
	"when the server stops":  func(w *world, _ string) { w.stop() },
}

// followWithNewToken follows a new run with a new token and returns the token's ID.
func (w *world) followWithNewToken() (s *clientStream, tokenID string) {
	w.Helper()
	w.newAgent("reviewer")
	run := w.newRun("reviewer", "x")
	token, err := w.auth.CreateToken(w.Context(), w.caller, stint.NewToken{Name: "watch"})
	if err != nil {
		w.Fatal(err)
	}
	return w.follow(request{path: "/v1/runs/" + run.ID + "/events", token: token.Secret}), token.ID
}

func TestEndOfStreams(t *testing.T) {
	for name, end := range streamEnds {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(c *api.Config) { c.Heartbeat = 20 * time.Millisecond })
			s, tokenID := w.followWithNewToken()
			if f := s.skipHeartbeats(); f.Event != "status" {
				t.Errorf("the stream begins with %+v", f)
			}
			end(w, tokenID)
			for _, f := range s.all() { // blocks if the stream does not end
				if f.Event != "heartbeat" {
					t.Errorf("the stream returned %+v", f)
				}
			}
		})
	}
}

// endlessJournal is a journal that always has another event, so that a reader of it
// never waits.
type endlessJournal struct{ store.Journal }

func (endlessJournal) Events(_ context.Context, _ string, after int64, _ int) ([]stint.Event, error) {
	data := []byte(`{"stream":"stdout","content":"` + strings.Repeat("x", 64<<10) + `"}`)
	return []stint.Event{{Seq: after + 1, Type: stint.EventOutput, Data: data}}, nil
}

func TestEndOfBusyStreams(t *testing.T) {
	for name, end := range streamEnds {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(c *api.Config) {
				c.Heartbeat = 20 * time.Millisecond
				c.Feed = feed.New(endlessJournal{c.Idempotency.(store.Journal)}, inproc.New(), false)
			})
			s, tokenID := w.followWithNewToken()
			s.mustNext("output")
			end(w, tokenID)
			for range 1000 { // more events than the buffers of the connection contain
				if _, ok := s.next(); !ok {
					return
				}
			}
			t.Error("the stream continues")
		})
	}
}

func TestStreamTokens(t *testing.T) {
	w := newWorld(t)
	words := w.fixture()
	var grant struct {
		Token     string
		ExpiresAt stint.Time
	}
	w.post("/v1/runs/"+words["done"]+"/stream-token", nil, http.StatusCreated, &grant)
	words["grant"] = grant.Token
	w.run(t, words, []row{
		{"the run's stream", "GET", "/v1/runs/{done}/events?access_token={grant}", "-", nil, nil, 200, []string{"event: complete\n"}, nil},
		{"another run's stream", "GET", "/v1/runs/{run}/events?access_token={grant}", "-", nil, nil, 401, []string{badKey}, nil},
		{"the run", "GET", "/v1/runs/{done}?access_token={grant}", "-", nil, nil, 401, []string{badKey}, nil},
		{"its logs", "GET", "/v1/runs/{done}/logs?access_token={grant}", "-", nil, nil, 401, []string{badKey}, nil},
		{"as a header", "GET", "/v1/runs/{done}/events", "grant", nil, nil, 401, []string{badKey}, nil},
		{"the header takes precedence", "GET", "/v1/runs/{done}/events?access_token={grant}", "x", nil, nil, 401, []string{badKey}, nil},
		{"changed", "GET", "/v1/runs/{done}/events?access_token={grant}A", "-", nil, nil, 401, []string{badKey}, nil},
	})
	w.pass(5 * time.Minute)
	w.run(t, words, []row{
		{"expired", "GET", "/v1/runs/{done}/events?access_token={grant}", "-", nil, nil, 401, []string{badKey}, nil},
	})
}

// manyEvents is a number of events of 128 KiB each. Together, the events exceed the
// buffers of a connection.
const manyEvents = 16

func (j *job) writeMany() {
	j.w.Helper()
	text := strings.Repeat("x", 128<<10)
	for range manyEvents {
		j.write(text)
	}
	j.finish(stint.Completed)
}

// TestSlowReaderDoesNotDelayOthers checks that a reader receives all events of a run
// while another client has opened a stream of the run but does not read it.
func TestSlowReaderDoesNotDelayOthers(t *testing.T) {
	w := newWorld(t, func(c *api.Config) { c.WriteTimeout = time.Hour })
	w.newAgent("reviewer")
	run := w.newRun("reviewer", "x")
	path := "/v1/runs/" + run.ID + "/events"
	slow, quick := w.follow(request{path: path}), w.follow(request{path: path})
	slow.mustNext("status")
	quick.mustNext("status")
	seen := make(chan int)
	go func() {
		rest, err := io.ReadAll(quick.text)
		if err != nil {
			t.Errorf("the quick reader's stream failed: %v", err)
		}
		seen <- bytes.Count(rest, []byte("\nid: "))
	}()
	w.claim().writeMany()
	if got := <-seen; got != manyEvents+3 {
		t.Errorf("the quick reader received %d events, want %d", got, manyEvents+3)
	}
	if open := w.metric("stint_http_open_streams"); open != "1" {
		t.Errorf("%s streams are open, want 1", open)
	}
}

// TestWriteTimeoutOfStream checks that the stream of a client that does not read ends.
func TestWriteTimeoutOfStream(t *testing.T) {
	w := newWorld(t, func(c *api.Config) { c.WriteTimeout = 300 * time.Millisecond })
	w.newAgent("reviewer")
	run := w.newRun("reviewer", "x")
	w.claim().writeMany()
	slow := w.follow(request{path: "/v1/runs/" + run.ID + "/events"})
	deadline := time.Now().Add(time.Minute)
	for w.metric("stint_http_open_streams") != "0" {
		if time.Now().After(deadline) {
			t.Fatal("the slow reader's stream stays open")
		}
	}
	if _, err := io.Copy(io.Discard, slow.resp.Body); err == nil {
		t.Error("the slow reader's stream ended without an error")
	}
}

// metric returns the value of a metric of the server. The name includes the labels.
func (w *world) metric(name string) string {
	w.Helper()
	value, ok := w.metrics()[name]
	if !ok {
		w.Fatalf("the metric %s is missing", name)
	}
	return value
}

func (w *world) metrics() map[string]string {
	w.Helper()
	a := w.do(request{method: "GET", path: "/metrics", token: "-"})
	all := map[string]string{}
	for line := range strings.Lines(string(a.body)) {
		if at := strings.LastIndexByte(line, ' '); at > 0 {
			all[line[:at]] = strings.TrimSpace(line[at:])
		}
	}
	return all
}

func TestLogs(t *testing.T) {
	w := newWorld(t)
	words := w.fixture()
	at := "/v1/runs/{done}/logs"
	w.run(t, words, []row{
		{"all", "GET", at, "", nil, nil, 200, []string{`"message":"one"`, `"message":"two"`, `"type":"agent"`, `"metadata":{"stream":"stdout"}`}, nil},
		{"one", "GET", at + "?limit=1", "", nil, nil, 200, []string{`"message":"one"`, `"hasMore":true`}, []string{`"two"`}},
		{"descending", "GET", at + "?limit=1&order=desc", "", nil, nil, 200, []string{`"message":"two"`}, []string{`"one"`}},
		{"of another type", "GET", at + "?type=network", "", nil, nil, 200, []string{`"data":[]`}, nil},
		{"before", "GET", at + "?until=2020-01-01T00:00:00Z", "", nil, nil, 200, []string{`"data":[]`}, nil},
		{"since, with an offset", "GET", at + "?since=2020-01-01T00:00:00%2B02:00", "", nil, nil, 200, []string{`"one"`}, nil},
		{"unknown type", "GET", at + "?type=kernel", "", nil, nil, 400, []string{invalid, `"param":"type"`}, nil},
		{"unknown order", "GET", at + "?order=up", "", nil, nil, 400, []string{invalid, `"param":"order"`}, nil},
		{"invalid time", "GET", at + "?since=yesterday", "", nil, nil, 400, []string{invalid, `"param":"since"`}, nil},
		{"too many", "GET", at + "?limit=101", "", nil, nil, 400, []string{invalid, `"param":"limit"`}, nil},
		{"invalid cursor", "GET", at + "?cursor=AAAA", "", nil, nil, 400, []string{invalid, `"param":"cursor"`}, nil},
	})
	var first stint.Page[stint.LogEntry]
	at = "/v1/runs/" + words["done"] + "/logs?limit=1"
	w.get(at, &first)
	var second stint.Page[stint.LogEntry]
	w.get(at+"&cursor="+*first.Pagination.NextCursor, &second)
	if len(second.Data) != 1 || second.Data[0].Message != "two" || second.Pagination.HasMore {
		t.Errorf("the second page is %+v", second)
	}
	if a := w.do(request{method: "GET", path: at + "&order=desc&cursor=" + *first.Pagination.NextCursor, hostile: true}); a.StatusCode != 400 {
		t.Errorf("a cursor with another order returned %d", a.StatusCode)
	}
}
