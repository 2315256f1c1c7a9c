package api_test

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/http/api"
)

// newHandler returns a world and its handler. A benchmark calls the handler without
// a connection.
func newHandler(b *testing.B) (*world, http.Handler) {
	b.Helper()
	var h http.Handler
	w := newWorld(b, func(c *api.Config) {
		own := *c
		own.Registry = nil
		h = api.New(own)
	})
	return w, h
}

func (w *world) bench(b *testing.B, h http.Handler, path string) {
	r := w.build(b.Context(), request{method: "GET", path: path})
	r.RequestURI = ""
	b.ReportAllocs()
	for b.Loop() {
		rec := httptest.NewRecorder()
		h.ServeHTTP(rec, r.Clone(b.Context()))
		if rec.Code != http.StatusOK {
			b.Fatal(rec.Code, rec.Body)
		}
	}
}

func BenchmarkGetFinishedRun(b *testing.B) {
	w, h := newHandler(b)
	w.bench(b, h, "/v1/runs/"+w.fixture()["done"])
}

func BenchmarkGetPendingRun(b *testing.B) {
	w, h := newHandler(b)
	w.bench(b, h, "/v1/runs/"+w.fixture()["run"])
}

func BenchmarkListRuns(b *testing.B) {
	w, h := newHandler(b)
	w.fixture()
	for range 30 {
		w.newRun("reviewer", "x")
	}
	w.bench(b, h, "/v1/runs")
}

// BenchmarkActivity measures one refresh of a live table with 100 running runs that have
// ten minutes of samples, and 20 pending runs.
func BenchmarkActivity(b *testing.B) {
	w, h := newHandler(b)
	w.newAgent("reviewer")
	samples := make([]stint.MetricsSample, 600)
	for i := range samples {
		samples[i] = stint.MetricsSample{Timestamp: stint.TimeOf(time.Now().Add(time.Duration(i) * time.Second)), CPUPercent: 12.5, MemoryUsedMb: 310, MemoryTotalMb: 2048}
	}
	for range 100 {
		run := w.newRun("reviewer", strings.Repeat("Review the change. ", 50))
		w.claim()
		if err := w.store.AddMetrics(b.Context(), run.ID, samples, nil); err != nil {
			b.Fatal(err)
		}
	}
	for range 20 {
		w.newRun("reviewer", "x")
	}
	w.bench(b, h, "/v1/activity")
}

func BenchmarkCreateRun(b *testing.B) {
	w, h := newHandler(b)
	w.newAgent("reviewer")
	b.ReportAllocs()
	for b.Loop() {
		rec := httptest.NewRecorder()
		h.ServeHTTP(rec, w.build(b.Context(), request{method: "POST", path: "/v1/runs", body: `{"agent":"reviewer","prompt":"x"}`}))
		if rec.Code != http.StatusAccepted {
			b.Fatal(rec.Code, rec.Body)
		}
	}
}

// BenchmarkOpenStreams measures the memory of an open stream, including the client's
// side of the connection.
func BenchmarkOpenStreams(b *testing.B) {
	w := newWorld(b)
	w.newAgent("reviewer")
	path := "/v1/runs/" + w.newRun("reviewer", "x").ID + "/events"
	const streams = 2000
	for b.Loop() {
		before := inUse()
		conns := make([]net.Conn, streams)
		for i := range conns {
			conns[i] = w.watch(path)
		}
		b.ReportMetric(float64(inUse()-before)/streams/1024, "KiB/stream")
		for _, c := range conns {
			c.Close()
		}
		for w.metric("stint_http_open_streams") != "0" {
			time.Sleep(time.Millisecond)
		}
	}
}

func inUse() uint64 {
	for range 6 { // each collection halves stacks that are mostly unused
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse + m.StackInuse
}

// watch opens an event stream on a new connection, reads the status event of a
// pending run, and returns the connection.
func (w *world) watch(path string) net.Conn {
	w.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(w.url, "http://"))
	if err != nil {
		w.Fatal(err)
	}
	if _, err := fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nAccept: text/event-stream\r\n\r\n", path, w.token); err != nil {
		w.Fatal(err)
	}
	var seen strings.Builder
	b := make([]byte, 1024)
	for !strings.Contains(seen.String(), `{"status":"`+string(stint.Pending)) {
		n, err := c.Read(b)
		if err != nil {
			w.Fatal(err)
		}
		seen.Write(b[:n])
	}
	return c
}
