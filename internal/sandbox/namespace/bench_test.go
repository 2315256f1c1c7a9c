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

// world is a driver and folders for a benchmark or a test.
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

// id is that of a world's nth sandbox: no other process's on this machine, as
// tests look for groups of that name.
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

// BenchmarkCold is a whole life: prepare, run /bin/true, close.
func BenchmarkCold(b *testing.B) { cold(b, false) }

// BenchmarkColdNetwork has a network besides.
func BenchmarkColdNetwork(b *testing.B) { cold(b, true) }

func cold(b *testing.B, network bool) {
	w := newWorld(b)
	measure(b, func() func() {
		s := w.spec()
		s.Network = network
		return func() {
			box := w.prepare(s)
			if e := w.run(box, "/bin/true"); e.Code != 0 {
				b.Fatalf("exit %+v", e)
			}
			w.close(box)
		}
	})
}

// BenchmarkWarm is from a prepared sandbox to the command's end.
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

// firstByte tells when it came.
type firstByte chan time.Time

func (f firstByte) Write(p []byte) (int, error) {
	select {
	case f <- time.Now():
	default:
	}
	return len(p), nil
}

// BenchmarkParked is from a job to its first byte: a parked sandbox with a
// network is given limits and two folders, and starts a command.
func BenchmarkParked(b *testing.B) {
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

// BenchmarkAttachLayers is what it takes to give a prepared sandbox a workspace
// of one layer with few files or many, and another that says what is gone.
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

// BenchmarkRate is whole lives, as many at once as there are processors.
func BenchmarkRate(b *testing.B) {
	w := newWorld(b)
	specs := make(chan sandbox.Spec, b.N)
	for range b.N {
		specs <- w.spec()
	}
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			box := w.prepare(<-specs)
			if e := w.run(box, "/bin/true"); e.Code != 0 {
				b.Errorf("exit %+v", e)
			}
			w.close(box)
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "sandboxes/s")
}

// BenchmarkIdle is what parked sandboxes take of the host's memory, each its
// share of what they share.
func BenchmarkIdle(b *testing.B) {
	const parked = 20
	w := newWorld(b)
	for b.Loop() {
		total := 0
		var boxes []sandbox.Sandbox
		for range parked {
			s := w.spec()
			s.Network = true
			boxes = append(boxes, w.prepare(s))
		}
		for _, box := range boxes {
			total += proportional(b, w.pid(box))
			w.close(box)
		}
		b.ReportMetric(float64(total)/parked/1024, "MiB")
	}
}

// proportional is a process's share of memory, in KiB.
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
	b.Fatalf("no share is told: %s", text)
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

// measureTo reports the least and the median too: the mean is the machine's mood.
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
