package bench_test

import (
	"bytes"
	"context"
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

	"github.com/stint-dev/stint/internal/bench"
)

func address(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	return srv.Listener.Addr().String()
}

func dial(t *testing.T, address string) *bench.Conn {
	t.Helper()
	c, err := bench.Dial(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func TestConnReadsWhatNetHTTPWrites(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("0123456789", 5000)
	c := dial(t, address(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/length":
			w.Header().Set("Content-Length", fmt.Sprint(len(long)))
			_, _ = io.WriteString(w, long)
		case "/chunks":
			for part := range strings.SplitSeq(long, "9") {
				_, _ = io.WriteString(w, part+"9")
				w.(http.Flusher).Flush()
			}
		case "/echo":
			body, _ := io.ReadAll(r.Body)
			fmt.Fprintf(w, "%s %s %s", r.Header.Get("Authorization"), r.Header.Get("X-More"), body)
		case "/nothing":
			w.WriteHeader(http.StatusNoContent)
		}
	}))
	for range 2 { // the connection is used on
		for path, want := range map[string]string{"/length": long, "/chunks": long + "9", "/nothing": "", "/empty": ""} {
			status := http.StatusOK
			if path == "/nothing" {
				status = http.StatusNoContent
			}
			got, err := c.Want(status, bench.Request("GET", path, "", ""))
			if err != nil {
				t.Fatalf("%s: %v", path, err)
			}
			if diff := cmp.Diff(want, string(got)); diff != "" {
				t.Errorf("%s (-want +got):\n%.300s", path, diff)
			}
		}
		got, err := c.Want(http.StatusOK, bench.Request("POST", "/echo", "token", `{"a":1}`, "X-More: yes"))
		if want := `Bearer token yes {"a":1}`; err != nil || string(got) != want {
			t.Errorf("echo %q, %v, want %q", got, err, want)
		}
	}
}

func TestConnTellsAnotherStatus(t *testing.T) {
	t.Parallel()
	c := dial(t, address(t, func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "teapot", http.StatusTeapot) }))
	_, err := c.Want(http.StatusOK, bench.Request("GET", "/tea", "", ""))
	if err == nil || !strings.Contains(err.Error(), "GET /tea HTTP/1.1: status 418, want 200: teapot") {
		t.Errorf("error %v", err)
	}
}

func TestOfferSendsEveryRequest(t *testing.T) {
	t.Parallel()
	var came atomic.Int64
	at := address(t, func(http.ResponseWriter, *http.Request) { came.Add(1) })
	conns := []*bench.Conn{dial(t, at), dial(t, at), dial(t, at)}
	n, err := bench.Offer(t.Context(), conns, 1000, 100*time.Millisecond, bench.Request("GET", "/", "", ""), http.StatusOK)
	if err != nil {
		t.Fatal(err)
	}
	if n != 100 || came.Load() != 100 {
		t.Errorf("%d answers to %d requests, want 100", n, came.Load())
	}
}

func TestOfferEndsWithTheFirstError(t *testing.T) {
	t.Parallel()
	at := address(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
	n, err := bench.Offer(t.Context(), []*bench.Conn{dial(t, at), dial(t, at)}, 1e6, time.Hour, bench.Request("GET", "/", "", ""), http.StatusOK)
	if err == nil || n != 0 {
		t.Errorf("%d answers, error %v", n, err)
	}
}

func TestPacedMakesWhatIsDue(t *testing.T) {
	t.Parallel()
	sum := 0
	n, err := bench.Paced(t.Context(), 1e5, 50*time.Millisecond, func(n int) error {
		if n < 1 || n > 512 {
			t.Errorf("%d at once", n)
		}
		sum += n
		return nil
	})
	if err != nil || n != sum || n < 1 || n > 5001 {
		t.Errorf("made %d, told %d, error %v", sum, n, err)
	}
	broken := errors.New("broken")
	if n, err := bench.Paced(t.Context(), 1000, time.Hour, func(int) error { return broken }); n != 0 || !errors.Is(err, broken) {
		t.Errorf("made %d, error %v", n, err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := bench.Paced(ended, 1000, time.Hour, func(int) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v after the context's end", err)
	}
}

func TestAnchorsWriteToTheDisk(t *testing.T) {
	t.Parallel()
	s, err := bench.Durables(t.Context(), t.TempDir(), 20*time.Millisecond)
	if err != nil || len(s) == 0 || s.Quantile(0) <= 0 {
		t.Errorf("%d writes, error %v", len(s), err)
	}
	rate, err := bench.Grouped(t.Context(), t.TempDir(), 8, 256, 20*time.Millisecond)
	if err != nil || rate <= 0 {
		t.Errorf("rate %v, error %v", rate, err)
	}
	if _, err := bench.Durables(t.Context(), t.TempDir()+"/missing", time.Millisecond); err == nil {
		t.Error("wrote into a folder that does not exist")
	}
}

// Events must be counted and timed wherever the network cuts them.
func TestStreamsCountEventsHoweverTheyAreCut(t *testing.T) {
	t.Parallel()
	const events = 5
	var text bytes.Buffer
	text.WriteString("event: status\ndata: {\"status\":\"running\"}\nid: 2\n\n")
	for i := range events {
		fmt.Fprintf(&text, "event: output\ndata: {\"content\":\"~%019d;x\"}\nid: %d\n\n", time.Now().UnixNano(), i+3)
	}
	for size := 1; size < 120; size += 17 {
		at := address(t, func(w http.ResponseWriter, _ *http.Request) {
			rest := text.Bytes()
			// The sign of life comes whole, as the service sends it.
			head := bytes.Index(rest, []byte("\n\n")) + 2
			for n := head; len(rest) > 0; n = min(size, len(rest)) {
				_, _ = w.Write(rest[:n])
				w.(http.Flusher).Flush()
				rest = rest[n:]
			}
		})
		// The chunks' own framing may cut a moment in two: only counts are sure.
		n, took, err := bench.Stream(t.Context(), at, bench.Request("GET", "/", "", ""), events)
		if err != nil || n != events {
			t.Fatalf("pieces of %d bytes: %d events, error %v", size, n, err)
		}
		for _, d := range took {
			if d <= 0 || d > time.Hour {
				t.Errorf("pieces of %d bytes: an event took %s", size, d)
			}
		}
	}
}

func TestMachine(t *testing.T) {
	t.Parallel()
	if kind, device := bench.MountOf(t.TempDir()); kind == "unknown" || device == "unknown" {
		t.Errorf("a temporary folder lies on %s of %s", kind, device)
	}
	if got := bench.Readers(10); got != 10 {
		t.Errorf("room for %d streams, want 10", got)
	}
}

func TestHostRefuses(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{nil, {"hotel"}, {"service", "dir"}, {"service", t.TempDir(), "many"}} {
		if err := bench.Host(t.Context(), args, strings.NewReader(""), io.Discard); err == nil {
			t.Errorf("hosted %v", args)
		}
	}
}
