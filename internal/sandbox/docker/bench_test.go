//go:build linux && (amd64 || arm64)

package docker_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/sandbox"
)

// BenchmarkCold is a whole life: prepare, run /bin/true, close.
func BenchmarkCold(b *testing.B) {
	w := newWorld(b, nil)
	measure(b, func() func() {
		s := w.spec()
		return func() {
			box := w.prepare(s)
			if out, e := w.run(box, "/bin/true"); e.Code != 0 {
				b.Fatalf("exit %+v: %s", e, out)
			}
			w.close(box)
		}
	})
}

// signal is a writer that tells when the first byte came.
type signal chan struct{}

func (s signal) Write(p []byte) (int, error) {
	select {
	case s <- struct{}{}:
	default:
	}
	return len(p), nil
}

// BenchmarkColdFirstByte is from nothing to the command's first byte.
func BenchmarkColdFirstByte(b *testing.B) { firstByte(b, false) }

// BenchmarkWarmFirstByte is from a prepared sandbox to the command's first byte.
func BenchmarkWarmFirstByte(b *testing.B) { firstByte(b, true) }

func firstByte(b *testing.B, warm bool) {
	w := newWorld(b, nil)
	var last sandbox.Sandbox
	measure(b, func() func() {
		if last != nil {
			w.close(last)
		}
		s := w.spec()
		if warm {
			last = w.prepare(s)
		}
		return func() {
			if !warm {
				last = w.prepare(s)
			}
			first := make(signal, 1)
			w.must(last.Start(context.Background(), sandbox.Command{Argv: []string{"/bin/echo", "x"}, Stdout: first}))
			<-first
		}
	})
	w.close(last)
}

// measure reports the least and the median too: the mean is the machine's mood.
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
