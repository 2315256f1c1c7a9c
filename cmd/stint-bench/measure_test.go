package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestDo(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/tea" {
			http.Error(w, "teapot", http.StatusTeapot)
			return
		}
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %s %s %s", r.Method, r.Header.Get("Authorization"), r.Header.Get("Prefer"), body)
	}))
	defer srv.Close()
	got := do(t.Context(), http.StatusOK, http.MethodPost, srv.URL+"/echo", "token", `{"a":1}`, "wait=1")
	if want := `POST Bearer token wait=1 {"a":1}`; string(got) != want {
		t.Errorf("echo %q, want %q", got, want)
	}
	err := catch(func() { do(t.Context(), http.StatusOK, http.MethodGet, srv.URL+"/tea", "", "") })
	if err == nil || !strings.Contains(err.Error(), "/tea: status 418, want 200: teapot") {
		t.Errorf("error %v", err)
	}
}

func TestOfferMakesEveryCall(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	m := offer(t.Context(), 1000, 100*time.Millisecond, func(context.Context) { calls.Add(1) })
	if m.Number != 100 || calls.Load() != 100 || m.Rate <= 0 {
		t.Errorf("%+v for %d calls, want 100", m, calls.Load())
	}
}

func TestOfferEndsWithTheFirstError(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	err := catch(func() { offer(t.Context(), 1000, time.Hour, func(context.Context) { check(broken) }) })
	if !errors.Is(err, broken) {
		t.Errorf("error %v", err)
	}
}

func TestCatchReturnsFailuresOnly(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	if err := catch(func() { check(broken) }); !errors.Is(err, broken) {
		t.Errorf("error %v", err)
	}
	if err := catch(func() {}); err != nil {
		t.Errorf("error %v", err)
	}
	defer func() {
		if recover() == nil {
			t.Error("another panic was caught")
		}
	}()
	_ = catch(func() { panic("another") })
}

func TestInTurn(t *testing.T) {
	t.Parallel()
	n := 0
	next := func(context.Context) int { n++; return n }
	if diff := cmp.Diff([][]int{{3, 5}, {4, 6}}, inTurn(t.Context(), 1, 2, next, next)); diff != "" {
		t.Errorf("results (-want +got):\n%s", diff)
	}
}

func TestClosedLoopEndsWithTheFirstError(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	err := catch(func() {
		closedLoop(t.Context(), 3, time.Hour, func(_ context.Context, i int) {
			if i == 1 {
				check(broken)
			}
		})
	})
	if !errors.Is(err, broken) {
		t.Errorf("error %v", err)
	}
}

func TestPacedMakesDueEvents(t *testing.T) {
	t.Parallel()
	sum := 0
	n := paced(t.Context(), 1e5, 50*time.Millisecond, func(n int) {
		if n < 1 || n > maxBatch {
			t.Errorf("%d events in one call, want 1 to %d", n, maxBatch)
		}
		sum += n
	})
	if n != sum || n < 1 || n > 5001 {
		t.Errorf("made %d, returned %d", sum, n)
	}
	broken := errors.New("broken")
	if err := catch(func() { paced(t.Context(), 1000, time.Hour, func(int) { check(broken) }) }); !errors.Is(err, broken) {
		t.Errorf("error %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := catch(func() { paced(ended, 1000, time.Hour, func(int) {}) }); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v after the context was cancelled", err)
	}
}

func TestAnchorsWriteToTheDisk(t *testing.T) {
	t.Parallel()
	l := &lab{dir: t.TempDir(), options: options{amounts: amounts{anchor: 20 * time.Millisecond}}}
	if m := l.durableWrites(t.Context()); m.Number == 0 || m.P50Ms <= 0 {
		t.Errorf("durable writes: %+v", m)
	}
	if rate := l.groupAppends(8, 256)(t.Context()); rate <= 0 {
		t.Errorf("group appends: %v/s", rate)
	}
	l.dir += "/missing"
	if catch(func() { l.durableWrites(t.Context()) }) == nil {
		t.Error("wrote into a folder that does not exist")
	}
}

// TestStreamsCountSplitEvents sends a stream in pieces of several sizes, so that the
// pieces split events at different positions.
func TestStreamsCountSplitEvents(t *testing.T) {
	t.Parallel()
	const events = 5
	var text bytes.Buffer
	text.WriteString("event: status\ndata: {\"status\":\"running\"}\nid: 2\n\n")
	for i := range events {
		fmt.Fprintf(&text, "event: output\ndata: {\"content\":\"~%019d;%s\"}\nid: %d\n\n", time.Now().UnixNano(), strings.Repeat("x", 5000), i+3)
	}
	for size := 1; size < 120; size += 17 {
		ours, theirs := net.Pipe()
		go func() {
			for part := range slices.Chunk(text.Bytes(), size) {
				_, _ = theirs.Write(part)
			}
			theirs.Close()
		}()
		s := &streams{}
		s.timed.Store(true)
		s.read(ours)
		if s.ready.Load() != 1 || s.events.Load() != events || len(s.took) != events || !s.ended.Load() {
			t.Fatalf("pieces of %d bytes: %d ready, %d events, %d timed", size, s.ready.Load(), s.events.Load(), len(s.took))
		}
		for _, d := range s.took {
			if d <= 0 || d > time.Hour {
				t.Errorf("pieces of %d bytes: an event took %s", size, d)
			}
		}
	}
}

func TestMachineFacts(t *testing.T) {
	t.Parallel()
	for i, line := range machineFacts("/bin/false", t.TempDir(), "SQLite") {
		if name, value, _ := strings.Cut(line, ":"); strings.TrimSpace(value) == "" || i > 1 && strings.Contains(value, "unknown") {
			t.Errorf("%s: %q", name, value)
		}
	}
	if len(strings.Fields(loadAverage())) != 3 {
		t.Errorf("load average %q", loadAverage())
	}
}

func TestModelRespondsInBothProtocols(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(http.HandlerFunc(model))
	defer srv.Close()
	for path, last := range map[string]string{"/v1/messages": "message_stop", "/v1/responses": "response.completed"} {
		answer, err := http.Post(srv.URL+path, "application/json", strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if err != nil || !bytes.Contains(body, []byte("event: "+last+"\ndata: {\"type\":\""+last)) {
			t.Errorf("%s: %v, %s", path, err, body)
		}
	}
}

func TestEgressServerAndClient(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() { answer(l) })
	r, w := io.Pipe()
	go func() {
		w.CloseWithError(catch(func() { runClient(t.Context(), []string{l.Addr().String(), "3", "1000000"}, w) }))
	}()
	line, err := bufio.NewReader(r).ReadString('\n')
	if err != nil || !strings.Contains(line, `"Rate":`) || strings.Count(line, ",") != 3 {
		t.Errorf("result %q, error %v", line, err)
	}
	l.Close()
	serving.Wait()
}
