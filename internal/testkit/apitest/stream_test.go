package apitest_test

import (
	"bufio"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stint-dev/stint/internal/testkit/apitest"
)

func blocks(all ...string) string { return strings.Join(all, "\n\n") + "\n\n" }

func TestStreams(t *testing.T) {
	t.Parallel()
	const (
		pending  = "event: status\ndata: {\"status\":\"pending\",\"timestamp\":\"2026-01-02T15:04:05.000Z\"}\nid: 1"
		running  = "event: status\ndata: {\"status\":\"running\",\"timestamp\":\"2026-01-02T15:04:05.000Z\"}\nid: 2"
		output   = "event: output\ndata: {\"content\":\"x\",\"timestamp\":\"2026-01-02T15:04:05.000Z\"}\nid: 3"
		beat     = "event: heartbeat\ndata: {\"timestamp\":\"2026-01-02T15:04:05.000Z\"}\nid: 3"
		done     = "event: status\ndata: {\"status\":\"completed\",\"timestamp\":\"2026-01-02T15:04:05.000Z\"}\nid: 4"
		complete = "event: complete\ndata: {\"status\":\"completed\",\"executionTimeMs\":5,\"timestamp\":\"2026-01-02T15:04:05.000Z\"}\nid: 5"
	)
	for name, c := range map[string]struct {
		query, stream, want string
	}{
		"fine":                      {"", blocks(pending, running, output, beat, beat, done, complete), ""},
		"behind an event":           {"?lastEventId=3", blocks(beat, done, complete), ""},
		"nothing left":              {"?lastEventId=5", "", ""},
		"heartbeat before all":      {"", blocks("event: heartbeat\ndata: {\"timestamp\":\"2026-01-02T15:04:05.000Z\"}", pending), ""},
		"heartbeat without its ID":  {"?lastEventId=3", blocks("event: heartbeat\ndata: {\"timestamp\":\"2026-01-02T15:04:05.000Z\"}"), "block"},
		"cut between blocks":        {"", blocks(pending, running), ""},
		"a gap":                     {"", blocks(pending, output), "is '3', not 2"},
		"an event twice":            {"", blocks(pending, pending), "is '1', not 2"},
		"not from the beginning":    {"", blocks(running), "is '2', not 1"},
		"inclusive":                 {"?lastEventId=3", blocks(output), "is '3', not 4"},
		"leading zero":              {"", blocks(strings.Replace(pending, "id: 1", "id: 01", 1)), "'01'"},
		"heartbeat with a new ID":   {"", blocks(pending, running, output, strings.Replace(beat, "id: 3", "id: 4", 1)), "heartbeat"},
		"behind what never was":     {"?lastEventId=x", "", "'x'"},
		"no ID line":                {"", blocks("event: status\ndata: {\"status\":\"pending\"}"), "block"},
		"another order of lines":    {"", blocks("id: 1\nevent: status\ndata: {\"status\":\"pending\"}"), "block"},
		"a comment":                 {"", blocks(": hello", pending), "block"},
		"two data lines":            {"", blocks("event: output\ndata: {\"content\":\ndata: \"x\",\"timestamp\":\"2026-01-02T15:04:05.000Z\"}\nid: 1"), "block"},
		"no space behind the colon": {"", blocks("event:status\ndata:{\"status\":\"pending\"}\nid:1"), "block"},
		"unknown type":              {"", blocks(strings.Replace(pending, "event: status", "event: state", 1)), "'state'"},
		"unknown status":            {"", blocks(strings.Replace(pending, "pending", "queued", 1)), "status"},
		"extra member":              {"", blocks(strings.Replace(pending, "{", `{"at":1,`, 1)), "at"},
		"missing member":            {"", blocks(strings.Replace(complete, `,"executionTimeMs":5`, "", 1)), "is '5', not 1"},
		"data that is not JSON":     {"", blocks("event: output\ndata: hello\nid: 1"), "JSON"},
		"complete without a time":   {"?lastEventId=4", blocks(strings.Replace(complete, `,"executionTimeMs":5`, "", 1)), "executionTimeMs"},
		"complete that is not":      {"?lastEventId=4", blocks(strings.Replace(complete, "completed", "running", 1)), "status"},
		"another status at the end": {"?lastEventId=3", blocks(done, strings.Replace(complete, "completed", "failed", 1)), "the status in complete is failed"},
		"two ends":                  {"?lastEventId=3", blocks(done, "event: status\ndata: {\"status\":\"failed\",\"timestamp\":\"2026-01-02T15:04:05.000Z\"}\nid: 5"), "changes from completed to failed"},
		"something follows":         {"?lastEventId=4", blocks(complete, "event: output\ndata: {\"content\":\"x\",\"timestamp\":\"2026-01-02T15:04:05.000Z\"}\nid: 6"), "follows complete"},
		"cut inside a block":        {"", blocks(pending) + "event: sta", "inside a block"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			answer := good(t, 200, "text/event-stream", "")
			answer.body = c.stream
			got := send(t, answer, "GET", run+"/events"+c.query, "", nil)
			if c.want == "" && got != "" || !strings.Contains(got, c.want) {
				t.Errorf("found %q, want %q", got, c.want)
			}
		})
	}
}

func TestHeaderTakesPrecedenceOverQuery(t *testing.T) {
	t.Parallel()
	answer := good(t, 200, "text/event-stream", "")
	answer.body = blocks("event: output\ndata: {\"content\":\"x\",\"timestamp\":\"2026-01-02T15:04:05.000Z\"}\nid: 8")
	got := send(t, answer, "GET", run+"/events?lastEventId=2", "", func(r *http.Request) *http.Request {
		r.Header.Set("Last-Event-ID", "7")
		return r
	})
	if got != "" {
		t.Error(got)
	}
}

// TestStreamIsNotReadAhead uses a server that sends the second event only after the
// client has received the first.
func TestStreamIsNotReadAhead(t *testing.T) {
	t.Parallel()
	received := make(chan struct{})
	answer := good(t, 200, "text/event-stream", "")
	s := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer.ServeHTTP(w, r)
		_, _ = io.WriteString(w, blocks("event: status\ndata: {\"status\":\"pending\",\"timestamp\":\"2026-01-02T15:04:05.000Z\"}\nid: 1"))
		_ = http.NewResponseController(w).Flush()
		select {
		case <-received:
		case <-r.Context().Done():
			return
		}
		_, _ = io.WriteString(w, blocks("event: status\ndata: {\"status\":\"running\",\"timestamp\":\"2026-01-02T15:04:05.000Z\"}\nid: 3"))
	}))
	req, _ := http.NewRequestWithContext(t.Context(), "GET", s.URL+run+"/events", nil)
	req.Header.Set("Authorization", "Bearer "+token)
	l := &recorder{TB: t}
	resp, err := apitest.Client(l).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() && lines.Text() != "id: 1" {
	}
	close(received)
	rest, err := io.ReadAll(resp.Body)
	if err != nil || len(l.messages) != 1 || !strings.Contains(l.messages[0], "is '3', not 2") {
		t.Errorf("rest %q, %v; messages %q", rest, err, l.messages)
	}
}

// TestUploadIsNotReadAhead uses a client that sends the end of the body only after the
// server has received the first half.
func TestUploadIsNotReadAhead(t *testing.T) {
	t.Parallel()
	half := make(chan struct{})
	answer := good(t, 201, "application/json", "VolumeVersion")
	s := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadFull(r.Body, make([]byte, 4))
		close(half)
		_, _ = io.Copy(io.Discard, r.Body)
		answer.ServeHTTP(w, r)
	}))
	out, in := io.Pipe()
	go func() {
		_, _ = io.WriteString(in, "half")
		<-half
		_ = in.Close()
	}()
	req, _ := http.NewRequestWithContext(t.Context(), "POST", s.URL+"/v1/volumes/x/versions?message=m", out)
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", "application/gzip")
	resp, err := apitest.Client(t).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
}
