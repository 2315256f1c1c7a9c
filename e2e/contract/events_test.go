package contract_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/stint-dev/stint"
)

var eventCases = []testCase{
	{"order and format of events", eventOrder},
	{"live, resumed, and replayed streams are equal", sameStreams},
	{"event IDs that do not exist", unknownEventIDs},
	{"the end of a stream", streamEnd},
	{"events as a list", eventList},
	{"stream tokens", streamTokens},
	{"output is not changed", verbatimOutput},
	{"several readers and one that does not read", slowReader},
}

// frame is an event of a stream, as text.
type frame struct{ Event, Data, ID string }

// stream is an open event stream.
type stream struct {
	w    *tenant
	resp *http.Response
	text *bufio.Reader
}

// follow opens an event stream, which is closed at the end of the test.
func (w *tenant) follow(r request) *stream {
	w.Helper()
	r.method = "GET"
	ctx, cancel := context.WithTimeout(w.Context(), waitLimit)
	resp, err := w.client.Do(w.build(ctx, r))
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() {
		resp.Body.Close()
		cancel()
	})
	return &stream{w, resp, bufio.NewReader(resp.Body)}
}

func (w *tenant) followRun(id string) *stream {
	w.Helper()
	return w.follow(request{path: "/v1/runs/" + id + "/events", header: map[string]string{"Accept": "text/event-stream"}})
}

// next returns the next frame, or false at the end of the stream. It ends the test if
// the stream is malformed or ends within a frame.
func (s *stream) next() (f frame, ok bool) {
	s.w.Helper()
	for {
		line, err := s.text.ReadString('\n')
		switch {
		case err == io.EOF && line == "" && f == frame{}:
			return f, false
		case err != nil:
			s.w.Fatalf("the stream broke off behind %+v: %v", f, err)
		case line == "\n":
			return f, true
		}
		name, text, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		switch name {
		case "event":
			f.Event = text
		case "data":
			f.Data = text
		case "id":
			f.ID = text
		default:
			s.w.Fatalf("a line is %q", line)
		}
	}
}

func (s *stream) all() (all []frame) {
	s.w.Helper()
	for f, ok := s.next(); ok; f, ok = s.next() {
		if f.Event != "heartbeat" {
			all = append(all, f)
		}
	}
	return all
}

func types(frames []frame) (all []string) {
	for _, f := range frames {
		all = append(all, f.Event)
	}
	return all
}

func eventOrder(w *tenant) {
	r := w.create(object{"prompt": "echo one; sleep 2; echo two >&2; exit 4"})
	frames := w.followRun(r.ID).all()
	w.equal("types", []string{"status", "status", "output", "output", "error", "status", "complete"}, types(frames))
	for i, f := range frames {
		w.equal("identifier", strconv.Itoa(i+1), f.ID)
	}
	done := w.read(r.ID)
	var e stint.ErrorData
	var c stint.CompleteData
	var out stint.OutputData
	w.equal("the first", `{"status":"pending","timestamp":"`+r.CreatedAt.String()+`"}`, frames[0].Data)
	second, _, _ := strings.Cut(frames[1].Data, `,"timestamp":"`)
	w.equal("the second", `{"status":"running"`, second)
	decode(w, []byte(frames[3].Data), &out)
	w.equal("output", stint.OutputData{Content: "two\n", Stream: "stderr"}, out)
	decode(w, []byte(frames[4].Data), &e)
	w.equal("error", stint.ErrorData{Message: *done.Error, Code: "exit_code"}, e)
	last, _, _ := strings.Cut(frames[5].Data, `,"timestamp":"`)
	w.equal("the last status", `{"status":"failed"`, last)
	decode(w, []byte(frames[6].Data), &c)
	w.equal("complete", []any{stint.Failed, *done.ExecutionTimeMs}, []any{c.Status, c.ExecutionTimeMs})
	good := w.run(object{})
	w.equal("types of a silent run", []string{"status", "status", "status", "complete"}, types(w.followRun(good.ID).all()))
}

func sameStreams(w *tenant) {
	r := w.create(object{"prompt": "for i in 1 2 3 4 5 6; do echo line $i; sleep 0.1; done; exit 1"})
	path := "/v1/runs/" + r.ID + "/events"
	live := w.followRun(r.ID)
	first, _ := live.next()
	second, _ := live.next()
	third, _ := live.next()
	joined := w.follow(request{path: path, header: map[string]string{"Last-Event-ID": "2"}}).all()
	rest := live.all()
	replay := w.followRun(r.ID).all()
	w.equal("live", replay, append([]frame{first, second, third}, rest...))
	w.equal("joined while it ran", replay[2:], joined)
	for i := range replay[:len(replay)-1] {
		header := map[string]string{"Last-Event-ID": strconv.Itoa(i + 1)}
		w.equal("resumed by header", replay[i+1:], w.follow(request{path: path, header: header}).all())
		w.equal("resumed by query", replay[i+1:], w.follow(request{path: fmt.Sprint(path, "?lastEventId=", i+1)}).all())
	}
	both := w.follow(request{path: path + "?lastEventId=1", header: map[string]string{"Last-Event-ID": "5"}})
	w.equal("the header rules", replay[5:], both.all())
}

func unknownEventIDs(w *tenant) {
	r := w.startRun(object{"prompt": "sleep 600"})
	done := w.run(object{})
	for _, id := range []string{r.ID, done.ID} {
		path := "/v1/runs/" + id + "/events"
		for _, bad := range []string{"0", "-1", "999", "99999999999999999999", "abc", "01", "1.0", "1x", "+1", id} {
			w.wantError(request{method: "GET", path: path, header: map[string]string{"Last-Event-ID": bad}}, 400, invalid)
			w.wantError(request{method: "GET", path: path + "?lastEventId=" + strings.ReplaceAll(bad, "+", "%2B")}, 400, invalid)
		}
		w.wantError(request{method: "GET", path: path + "?lastEventId=1", header: map[string]string{"Last-Event-ID": "999"}}, 400, invalid)
	}
	w.cancel(r.ID)
	for accept, status := range map[string]int{"text/html": 406, "image/png": 406} {
		w.wantError(request{method: "GET", path: "/v1/runs/" + done.ID + "/events", header: map[string]string{"Accept": accept}}, status, "invalid_request_error not_acceptable")
	}
}

func streamEnd(w *tenant) {
	r := w.run(object{"prompt": "echo x"})
	path := "/v1/runs/" + r.ID + "/events"
	frames := w.followRun(r.ID).all() // returns because the server closes the stream
	last := frames[len(frames)-1]
	w.equal("the last", "complete", last.Event)
	a := w.do(request{method: "GET", path: path, header: map[string]string{"Last-Event-ID": last.ID}})
	w.equal("by header", []any{204, ""}, []any{a.StatusCode, string(a.body)})
	a = w.do(request{method: "GET", path: path + "?lastEventId=" + last.ID})
	w.equal("by query", []any{200, "", "text/event-stream"}, []any{a.StatusCode, string(a.body), a.Header.Get("Content-Type")})
	a = w.do(request{method: "GET", path: path, header: map[string]string{"Accept": "text/event-stream"}})
	if got := a.Header.Get("Content-Type"); got != "text/event-stream" || a.Header.Get("Cache-Control") == "" {
		w.Errorf("headers %v", a.Header)
	}
}

func eventList(w *tenant) {
	r := w.run(object{"prompt": "for i in 1 2 3 4 5; do echo $i; sleep 0.06; done"})
	path := "/v1/runs/" + r.ID + "/events"
	frames := w.followRun(r.ID).all()
	var got []frame
	header := map[string]string{"Accept": "application/json"}
	cursor := ""
	for {
		var page stint.Page[stint.Event]
		w.must(200, request{method: "GET", path: path + "?limit=2" + cursor, header: header}, &page)
		for _, e := range page.Data {
			got = append(got, frame{string(e.Type), string(e.Data), strconv.FormatInt(e.Seq, 10)})
			var data struct{ Timestamp string }
			w.equal("time in the data", true, json.Unmarshal(e.Data, &data) == nil && data.Timestamp == e.At.String())
		}
		if !page.Pagination.HasMore {
			break
		}
		cursor = "&cursor=" + *page.Pagination.NextCursor
	}
	w.equal("the same events", frames, got)
	w.equal("behind the third", len(frames)-3, len(list[stint.Event](w, path+"?lastEventId=3", header)))
	items := list[object](w, path, header)
	w.equal("members", []string{"data", "id", "timestamp", "type"}, keys(items[0]))
	w.equal("id is text", any("1"), items[0]["id"])
}

func streamTokens(w *tenant) {
	r, other := w.run(object{}), w.run(object{})
	var made struct{ Token, ExpiresAt string }
	w.must(201, request{method: "POST", path: "/v1/runs/" + r.ID + "/stream-token"}, &made)
	events := "/v1/runs/" + r.ID + "/events?access_token="
	s := w.follow(request{path: events + made.Token, token: "-"})
	w.equal("status", 200, s.resp.StatusCode)
	w.equal("events", []string{"status", "status", "status", "complete"}, types(s.all()))
	for _, path := range []string{
		"/v1/runs/" + other.ID + "/events?access_token=" + made.Token, "/v1/runs/" + r.ID + "?access_token=" + made.Token,
		"/v1/runs/" + r.ID + "/logs?access_token=" + made.Token, "/v1/runs?access_token=" + made.Token, events + w.token, events + "nonsense", events,
		events + changedEnd(made.Token),
	} {
		w.wantError(request{method: "GET", path: path, token: "-"}, 401, badKey)
	}
	w.wantError(request{method: "GET", path: "/v1/runs/" + r.ID, token: made.Token}, 401, badKey)
	at, err := stint.ParseTime(made.ExpiresAt)
	check(w, err)
	if life := at.Sub(r.CreatedAt.Time).Minutes(); life < 5 || life > 7 {
		w.Errorf("the token lives for %v minutes", life)
	}
}

// changedEnd returns the text with its last two characters replaced by others.
func changedEnd(text string) string {
	end := "AA"
	if strings.HasSuffix(text, end) {
		end = "BA"
	}
	return text[:len(text)-len(end)] + end
}

func verbatimOutput(w *tenant) {
	text := "plain\ttab\r\nüñï 漢字 😀 \u2028 \"quoted\" \\back <b>&amp;\x1b[31mred\x1b[0m\nno end"
	v := w.volume("text", object{"text": text})
	out, r := w.runOutput(object{"prompt": "cat /volumes/text/text", "volumes": object{"text": v.ID}})
	w.equal("output", text, out)
	for _, f := range w.followRun(r.ID).all() {
		if strings.ContainsAny(f.Data, "\r\x1b") {
			w.Errorf("raw control characters in %q", f.Data)
		}
	}
	// Output that is not valid UTF-8 is replaced by readable text and does not end the run.
	out, _ = w.runOutput(object{"prompt": `printf 'a\377\376b\0c\n'; head -c 20000 /dev/urandom; echo; echo end`})
	if !strings.HasPrefix(out, "a") || !strings.HasSuffix(out, "\nend\n") {
		w.Errorf("binary output begins %.20q and ends %q", out, out[max(0, len(out)-20):])
	}
}

func slowReader(w *tenant) {
	r := w.startRun(object{"prompt": "sleep 0.5; head -c 6000000 /dev/zero | tr '\\0' x | fold -w 99; echo end"})
	stuck := w.followRun(r.ID) // read only after the run has ended
	var reading sync.WaitGroup
	texts, errs := make([][]byte, 3), make([]error, 3)
	for i := range texts {
		s := w.followRun(r.ID)
		reading.Go(func() { texts[i], errs[i] = io.ReadAll(s.text) })
	}
	w.awaitStatus(r.ID, stint.Completed)
	reading.Wait()
	check(w, errors.Join(errs...))
	want := stuck.all()
	if last := lastOf(want); last.Event != "complete" {
		w.Errorf("the late reader got %d events, at last %+v", len(want), last)
	}
	for i, text := range texts {
		got := (&stream{w: w, text: bufio.NewReader(bytes.NewReader(text))}).all()
		if len(text) < 6_000_000 || !slices.Equal(want, got) {
			w.Errorf("reader %d got %d bytes, %d events, the late one %d", i, len(text), len(got), len(want))
		}
	}
}
