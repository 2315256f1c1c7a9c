//go:build linux && (amd64 || arm64)

package gvisor_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/sandbox"
)

// world creates and runs sandboxes of a driver for a test or a benchmark.
type world struct {
	testing.TB
	driver sandbox.Driver
	n      int
}

func newWorld(tb testing.TB) *world {
	w := &world{TB: tb}
	d, err := newDriver(filepath.Join(tb.TempDir(), "state"))
	if err != nil {
		tb.Fatal(err)
	}
	w.driver = d
	tb.Cleanup(func() {
		if err := d.(interface{ Close() error }).Close(); err != nil {
			tb.Error(err)
		}
	})
	return w
}

func (w *world) spec() sandbox.Spec {
	w.n++
	base := w.TempDir()
	s := sandbox.Spec{
		ID:   fmt.Sprintf("run_%d", w.n),
		Home: filepath.Join(base, "home"), Workspace: filepath.Join(base, "workspace"), Scratch: filepath.Join(base, "scratch"),
		Run:       filepath.Join(base, "run"),
		Resources: sandbox.Resources{CPU: 2, Memory: 1 << 30, Pids: 256, Disk: 1 << 30},
	}
	for _, dir := range []string{s.Home, s.Workspace, s.Scratch, s.Run} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			w.Fatal(err)
		}
	}
	return s
}

func (w *world) prepare(s sandbox.Spec) sandbox.Sandbox {
	w.Helper()
	b, err := w.driver.Prepare(context.Background(), s)
	if err != nil {
		w.Fatal(err)
	}
	return b
}

func (w *world) run(b sandbox.Sandbox, argv ...string) sandbox.Exit {
	w.Helper()
	if err := b.Start(context.Background(), sandbox.Command{Argv: argv}); err != nil {
		w.Fatal(err)
	}
	e, err := b.Wait(context.Background())
	if err != nil {
		w.Fatal(err)
	}
	return e
}

func (w *world) close(b sandbox.Sandbox) {
	w.Helper()
	if err := b.Close(context.Background()); err != nil {
		w.Fatal(err)
	}
}

// BenchmarkCold measures a complete run: prepare, run /bin/true, close.
func BenchmarkCold(b *testing.B) {
	w := newWorld(b)
	measure(b, func() func() {
		s := w.spec()
		return func() {
			sb := w.prepare(s)
			if e := w.run(sb, "/bin/true"); e.Code != 0 {
				b.Fatalf("exit %+v", e)
			}
			w.close(sb)
		}
	})
}

// BenchmarkFirstByte measures the time from Prepare to the command's first
// byte.
func BenchmarkFirstByte(b *testing.B) {
	w := newWorld(b)
	var last sandbox.Sandbox
	measure(b, func() func() {
		if last != nil {
			w.close(last)
		}
		s := w.spec()
		return func() {
			last = w.prepare(s)
			w.firstByte(last)
		}
	})
	w.close(last)
}

// BenchmarkWarm measures the time from Start in a prepared sandbox to the command's
// first byte.
func BenchmarkWarm(b *testing.B) {
	w := newWorld(b)
	var last sandbox.Sandbox
	measure(b, func() func() {
		if last != nil {
			w.close(last)
		}
		s := w.spec()
		last = w.prepare(s)
		w.settle(s.ID)
		return func() { w.firstByte(last) }
	})
	w.close(last)
}

// settle waits until the processes that are needed only to start a sandbox have ended,
// as they have for a sandbox of a pool.
func (w *world) settle(id string) {
	for range time.Tick(time.Millisecond) {
		if !slices.Contains(parts(w, id), "runsc") {
			return
		}
	}
}

// firstByte starts a command and waits for its first output.
func (w *world) firstByte(b sandbox.Sandbox) {
	seen := make(signal, 1)
	if err := b.Start(context.Background(), sandbox.Command{Argv: []string{"/bin/echo", "x"}, Stdout: seen}); err != nil {
		w.Fatal(err)
	}
	<-seen
}

type signal chan struct{}

func (s signal) Write(p []byte) (int, error) {
	select {
	case s <- struct{}{}:
	default:
	}
	return len(p), nil
}

// measure measures the functions that ready returns, without the time of ready itself.
// It reports the minimum and the median too, because the mean depends on the machine's
// load.
func measure(b *testing.B, ready func() func()) {
	var all []time.Duration
	for b.Loop() {
		b.StopTimer()
		run := ready()
		start := time.Now()
		b.StartTimer()
		run()
		all = append(all, time.Since(start))
	}
	slices.Sort(all)
	b.ReportMetric(float64(all[0].Microseconds())/1000, "min-ms")
	b.ReportMetric(float64(all[len(all)/2].Microseconds())/1000, "median-ms")
}
