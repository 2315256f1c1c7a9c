package worker_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/worker"
)

// A sample at the run's end may follow another at once. The moment between a
// reading and its time then counts for much: 1 ms of use in 0.1 ms is no ten
// cores.
func TestASampleRightAfterAnother(t *testing.T) {
	t.Parallel()
	const s, ms = time.Second, time.Millisecond
	used := map[time.Duration]time.Duration{0: 0, s: s / 2, s + ms/10: s/2 + ms, 2 * s: s}
	if got := worker.Percent(used, 0, s, s+ms/10, 2*s); !slices.Equal(got, []float64{0, 50, 50, 50}) {
		t.Errorf("the samples tell %v", got)
	}
	if got := worker.Percent(used, s, 0, 2*s); !slices.Equal(got, []float64{0, 0, 50}) {
		t.Errorf("after a step back of the clock they tell %v", got)
	}
}
