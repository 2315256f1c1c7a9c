//go:build linux && (amd64 || arm64)

package namespace_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/sandbox"
	"github.com/stint-dev/stint/internal/sandbox/namespace"
)

// world creates and runs sandboxes of a driver for a test or a benchmark.
type world struct {
	testing.TB
	driver *namespace.Driver
	state  string
	n      int
}

func newWorld(tb testing.TB) *world {
	w := &world{TB: tb, state: filepath.Join(tb.TempDir(), "state")}
	d, err := namespace.New(namespace.Config{StateDir: w.state, DiskInterval: diskInterval})
	if err != nil {
		tb.Fatal(err)
	}
	w.driver = d
	tb.Cleanup(func() {
		if err := d.Close(); err != nil {
			tb.Error(err)
		}
	})
	return w
}

// id returns the ID of a world's nth sandbox. It is unique on this machine, because
// tests look for control groups with this name.
func id(n int) string { return fmt.Sprintf("run_%d_%d", os.Getpid(), n) }

func (w *world) spec() sandbox.Spec {
	w.n++
	base := w.TempDir()
	s := sandbox.Spec{
		ID:   id(w.n),
		Home: filepath.Join(base, "home"), Workspace: filepath.Join(base, "workspace"), Scratch: filepath.Join(base, "scratch"),
		Resources: sandbox.Resources{CPU: 2, Memory: 1 << 30, Pids: 256, Disk: 1 << 30},
	}
	for _, dir := range []string{s.Home, s.Workspace, s.Scratch} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			w.Fatal(err)
		}
	}
	return s
}

func (w *world) prepare(s sandbox.Spec) sandbox.Sandbox {
	b, err := w.driver.Prepare(context.Background(), s)
	if err != nil {
		w.Fatal(err)
	}
	return b
}

func (w *world) run(b sandbox.Sandbox, argv ...string) sandbox.Exit {
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
	if err := b.Close(context.Background()); err != nil {
		w.Fatal(err)
	}
}

// BenchmarkCold measures a complete run: prepare, run /bin/true, close.
func BenchmarkCold(b *testing.B) { cold(b, false) }

// BenchmarkColdNetwork is like BenchmarkCold, but the sandbox has a network.
func BenchmarkColdNetwork(b *testing.B) { cold(b, true) }

func cold(b *testing.B, network bool) {
	w := newWorld(b)
	measure(b, func() func() {
		s := w.spec()
		s.Network = network
		return func() {
			sb := w.prepare(s)
			if e := w.run(sb, "/bin/true"); e.Code != 0 {
				b.Fatalf("exit %+v", e)
			}
			w.close(sb)
		}
	})
}

// BenchmarkWarm measures the time from Start in a prepared sandbox to the command's end.
func BenchmarkWarm(b *testing.B) {
	w := newWorld(b)
	var last sandbox.Sandbox
	measure(b, func() func() {
		if last != nil {
			w.close(last)
		}
		last = w.prepare(w.spec())
		return func() {
			if e := w.run(last, "/bin/true"); e.Code != 0 {
				b.Fatalf("exit %+v", e)
			}
		}
	})
	w.close(last)
}

// firstByte is a writer that sends the time of its first write.
type firstByte chan time.Time

func (f firstByte) Write(p []byte) (int, error) {
	select {
	case f <- time.Now():
	default:
	}
	return len(p), nil
}

// BenchmarkAttach measures the time from Attach, with limits and mounts, to the
// command's first byte. The prepared sandbox has a network.
func BenchmarkAttach(b *testing.B) {
	w := newWorld(b)
	var last sandbox.Sandbox
	measureTo(b, func() func() time.Time {
		if last != nil {
			w.close(last)
		}
		s := w.spec()
		r := s.Resources
		s.Resources, s.Network = sandbox.Resources{}, true
		last = w.prepare(s)
		mounts := []sandbox.Mount{{Source: b.TempDir(), Target: "/data"}, {Source: b.TempDir(), Target: "/out", Writable: true}}
		return func() time.Time {
			if err := last.Attach(context.Background(), r, mounts); err != nil {
				b.Fatal(err)
			}
			first := make(firstByte, 1)
			if err := last.Start(context.Background(), sandbox.Command{Argv: []string{"/bin/echo", "x"}, Stdout: first}); err != nil {
				b.Fatal(err)
			}
			return <-first
		}
	})
	w.close(last)
}

// BenchmarkAttachLayers measures attaching a workspace overlay with few or many
// files to a prepared sandbox.
func BenchmarkAttachLayers(b *testing.B) {
	for _, files := range []int{10, 100_000} {
		b.Run(fmt.Sprint(files), func(b *testing.B) { attachLayers(b, files) })
	}
}

func attachLayers(b *testing.B, files int) {
	w := newWorld(b)
	layer := b.TempDir()
	for i := range files {
		dir := filepath.Join(layer, fmt.Sprint(i/1000))
		if i%1000 == 0 {
			if err := os.Mkdir(dir, 0o755); err != nil {
				b.Fatal(err)
			}
		}
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprint(i)), nil, 0o644); err != nil {
			b.Fatal(err)
		}
	}
	over := b.TempDir()
	var last sandbox.Sandbox
	measure(b, func() func() {
		if last != nil {
			w.close(last)
		}
		s := w.spec()
		last = w.prepare(s)
		upper := b.TempDir()
		return func() {
			err := last.Attach(context.Background(), s.Resources, []sandbox.Mount{{Target: sandbox.WorkspaceDir, Layers: []string{over, layer}, Upper: upper}})
			if err != nil {
				b.Fatal(err)
			}
		}
	})
	w.close(last)
}

// BenchmarkRate measures complete runs, as many in parallel as there are CPUs.
func BenchmarkRate(b *testing.B) {
	w := newWorld(b)
	specs := make(chan sandbox.Spec, b.N)
	for range b.N {
		specs <- w.spec()
	}
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			sb := w.prepare(<-specs)
			if e := w.run(sb, "/bin/true"); e.Code != 0 {
				b.Errorf("exit %+v", e)
			}
			w.close(sb)
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "sandboxes/s")
}

// BenchmarkIdle measures the memory of a prepared sandbox. Memory that processes share
// is divided among them.
func BenchmarkIdle(b *testing.B) {
	const parked = 20
	w := newWorld(b)
	for b.Loop() {
		total := 0
		var sandboxes []sandbox.Sandbox
		for range parked {
			s := w.spec()
			s.Network = true
			sandboxes = append(sandboxes, w.prepare(s))
		}
		for _, sb := range sandboxes {
			total += proportional(b, w.pid(sb))
			w.close(sb)
		}
		b.ReportMetric(float64(total)/parked/1024, "MiB")
	}
}

// proportional returns a process's proportional set size in KiB.
func proportional(b *testing.B, pid int) int {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var kib int
		if n, _ := fmt.Sscanf(line, "Pss: %d kB", &kib); n == 1 {
			return kib
		}
	}
	b.Fatalf("no Pss line: %s", text)
	return 0
}

func measure(b *testing.B, ready func() func()) {
	measureTo(b, func() func() time.Time {
		run := ready()
		return func() time.Time {
			run()
			return time.Now()
		}
	})
}

// measureTo measures the functions that ready returns, without the time of ready
// itself. Each function returns the time at which its measurement ends. measureTo
// reports the minimum and the median too, because the mean depends on the machine's
// load.
func measureTo(b *testing.B, ready func() func() time.Time) {
	var all []time.Duration
	for b.Loop() {
		b.StopTimer()
		run := ready()
		start := time.Now()
		b.StartTimer()
		end := run()
		all = append(all, end.Sub(start))
	}
	slices.Sort(all)
	b.ReportMetric(float64(all[0].Microseconds())/1000, "min-ms")
	b.ReportMetric(float64(all[len(all)/2].Microseconds())/1000, "median-ms")
}
