package run_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/worker/run"
)

// TestCPUUseOfShortIntervals checks measurements in quick succession, such as the last two
// of a run: a CPU time of 1 ms within 0.1 ms must not be reported as the use of ten cores.
func TestCPUUseOfShortIntervals(t *testing.T) {
	t.Parallel()
	const s, ms = time.Second, time.Millisecond
	used := map[time.Duration]time.Duration{0: 0, s: s / 2, s + ms/10: s/2 + ms, 2 * s: s}
	if got := run.Percents(used, 0, s, s+ms/10, 2*s); !slices.Equal(got, []float64{0, 50, 50, 50}) {
		t.Errorf("got %v", got)
	}
	if got := run.Percents(used, s, 0, 2*s); !slices.Equal(got, []float64{0, 0, 50}) {
		t.Errorf("after the clock was set back: got %v", got)
	}
}
