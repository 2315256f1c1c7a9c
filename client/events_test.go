package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/client"
)

// script is a handler for requests of an event stream. It responds to the nth request
// with the nth part, and to further requests with the last part. A part is the text of
// a stream, or one of the statuses "204", "503", and "404". If the text ends with "…",
// script sends the text before it and then breaks the connection.
type script struct {
	parts []string
	after []string // Last-Event-ID header of each request
}

func (s *script) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.after = append(s.after, r.Header.Get("Last-Event-ID"))
	part := s.parts[min(len(s.after), len(s.parts))-1]
	switch part {
	case "204":
		w.WriteHeader(204)
		return
	case "503":
		writeJSON(w, 503, `{"error":{"code":"unavailable","message":"Later."}}`)
		return
	case "404":
		writeJSON(w, 404, `{"error":{"code":"resource_not_found","message":"No such run."}}`)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	part, broken := strings.CutSuffix(part, "…")
	fmt.Fprint(w, part)
	if broken {
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}
}

func frame(seq int, kind, data string) string {
	return fmt.Sprintf("event: %s\ndata: %s\nid: %d\n\n", kind, data, seq)
}

func collect(ctx context.Context, c *client.Client, after int64) (seqs []int64, err error) {
	for e, err := range c.Runs.Events(ctx, "run_1", after) {
		if err != nil {
			return seqs, err
		}
		seqs = append(seqs, e.Seq)
	}
	return seqs, nil
}

func TestEvents(t *testing.T) {
	t.Parallel()
	one, two := frame(1, "status", `{"status":"pending"}`), frame(2, "output", `{"content":"a"}`)
	beat := "event: heartbeat\ndata: {\"timestamp\":\"x\"}\nid: 2\n\n"
	three := frame(3, "complete", `{"status":"completed","executionTimeMs":4}`)
	tests := map[string]struct {
		from  int64
		parts []string
		want  []int64
		after []string
	}{
		"no interruption":              {0, []string{one + two + beat + three}, []int64{1, 2, 3}, []string{""}},
		"from the middle":              {2, []string{three}, []int64{3}, []string{"2"}},
		"broken between events":        {0, []string{one + "…", two + "…", three}, []int64{1, 2, 3}, []string{"", "1", "2"}},
		"broken within an event":       {0, []string{one + two[:20] + "…", two + three}, []int64{1, 2, 3}, []string{"", "1"}},
		"broken before the last LF":    {0, []string{one + two[:len(two)-1] + "…", two + three}, []int64{1, 2, 3}, []string{"", "1"}},
		"ended without an error":       {0, []string{one, two + three}, []int64{1, 2, 3}, []string{"", "1"}},
		"repeated events":              {0, []string{one + two + "…", one + two + three}, []int64{1, 2, 3}, []string{"", "2"}},
		"a missing event":              {0, []string{one + three, two + three}, []int64{1, 2, 3}, []string{"", "1"}},
		"busy server":                  {0, []string{"503", one + "…", "503", two + three}, []int64{1, 2, 3}, []string{"", "", "1", "1"}},
		"an event resets the failures": {0, []string{"503", "503", "503", one + "…", "503", "503", two + three}, []int64{1, 2, 3}, []string{"", "", "", "", "1", "1", "1"}},
		"no further events":            {3, []string{"204"}, nil, []string{"3"}},
		"data after the last event":    {0, []string{one + two + three + frame(4, "output", "{}")}, []int64{1, 2, 3}, []string{""}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &script{parts: tt.parts}
			got, err := collect(t.Context(), serve(t, s), tt.from)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.after, s.after); diff != "" {
				t.Errorf("Last-Event-ID (-want +got):\n%s", diff)
			}
		})
	}
}

func TestEventsGiveUp(t *testing.T) {
	t.Parallel()
	one := frame(1, "status", `{}`)
	tests := map[string]struct {
		parts    []string
		requests int
		want     string
	}{
		"server stays unavailable": {[]string{one + "…", "503"}, 4, "gave up"},
		"an event stays missing":   {[]string{one + frame(3, "output", "{}")}, 4, "event 3 came after 1"},
		"refused":                  {[]string{"404"}, 1, "No such run"},
		"ID is not a number":       {[]string{"event: status\ndata: {}\nid: x\n\n"}, 1, "not a number"},
		"data is not JSON":         {[]string{"event: status\ndata: {\nid: 1\n\n"}, 1, "not a JSON object"},
		"too large":                {[]string{"data: " + strings.Repeat("x", 17<<20)}, 1, "size limit"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &script{parts: tt.parts}
			_, err := collect(t.Context(), serve(t, s), 0)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error is %v, want one with %q", err, tt.want)
			}
			if len(s.after) != tt.requests {
				t.Errorf("%d requests, want %d", len(s.after), tt.requests)
			}
		})
	}
}

func TestOtherContentTypeIsAnError(t *testing.T) {
	t.Parallel()
	c := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, 200, "{}") }))
	if _, err := collect(t.Context(), c, 0); err == nil || !strings.Contains(err.Error(), "instead of an event stream") {
		t.Errorf("error is %v", err)
	}
}

const pending = `{"status":"pending","timestamp":"2026-01-02T15:04:05.006Z"}`

// hanging is a handler that sends one event, and then nothing until the client
// disconnects.
func hanging(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	fmt.Fprint(w, frame(1, "status", pending))
	w.(http.Flusher).Flush()
	<-r.Context().Done()
}

func TestEventsEndWithTheirContext(t *testing.T) {
	t.Parallel()
	c := serve(t, http.HandlerFunc(hanging))
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	why := errors.New("enough")
	var last error
	for e, err := range c.Runs.Events(ctx, "run_1", 0) {
		if last = err; e.Seq == 1 {
			cancel(why)
		}
	}
	if !errors.Is(last, why) {
		t.Errorf("error is %v, want %v", last, why)
	}
}

func TestIterationCanStop(t *testing.T) {
	t.Parallel()
	c := serve(t, http.HandlerFunc(hanging))
	for e, err := range c.Runs.Events(t.Context(), "run_1", 0) {
		if err != nil {
			t.Fatal(err)
		}
		at := stint.TimeOf(time.Date(2026, 1, 2, 15, 4, 5, 6e6, time.UTC))
		if diff := cmp.Diff(stint.Event{Seq: 1, Type: stint.EventStatus, At: at, Data: []byte(pending)}, e); diff != "" {
			t.Errorf("event (-want +got):\n%s", diff)
		}
		break
	}
}

func TestWaitReturnsTheEndedRun(t *testing.T) {
	t.Parallel()
	var gets int
	c := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/events") {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, frame(1, "complete", `{"status":"failed"}`))
			return
		}
		status := "running"
		if gets++; gets > 1 {
			status = "failed"
		}
		writeJSON(w, 200, `{"id":"run_1","status":"`+status+`"}`)
	}))
	run, err := c.Runs.Wait(t.Context(), "run_1")
	if err != nil || run.Status != stint.Failed {
		t.Errorf("run %+v, error %v", run, err)
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestSilentStreamIsResumed checks that the client reconnects if it receives nothing
// for more than a minute.
func TestSilentStreamIsResumed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var after []string
		began := time.Now()
		transport := roundTripper(func(r *http.Request) (*http.Response, error) {
			after = append(after, r.Header.Get("Last-Event-ID"))
			out, in := io.Pipe()
			context.AfterFunc(r.Context(), func() { in.CloseWithError(r.Context().Err()) })
			go func() {
				if len(after) == 1 {
					io.WriteString(in, frame(1, "status", "{}")) // the stream sends nothing more
				} else {
					io.WriteString(in, frame(2, "complete", "{}"))
				}
			}()
			return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: out, Request: r}, nil
		})
		c, err := client.New(client.Options{URL: "http://stint.test", HTTP: &http.Client{Transport: transport}})
		if err != nil {
			t.Fatal(err)
		}
		got, err := collect(t.Context(), c, 0)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]int64{1, 2}, got); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{"", "1"}, after); diff != "" {
			t.Errorf("Last-Event-ID (-want +got):\n%s", diff)
		}
		if waited := time.Since(began); waited < time.Minute {
			t.Errorf("the client reconnected after %s of silence, want at least a minute", waited)
		}
	})
}
