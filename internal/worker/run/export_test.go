package run

import (
	"time"

	"github.com/stint-dev/stint/internal/sandbox"
)

// Percents returns the CPU use, in percent, that a cpuMeter computes from measurements
// at the given times. used contains the CPU time consumed until each of these times.
func Percents(used map[time.Duration]time.Duration, at ...time.Duration) (percents []float64) {
	var m cpuMeter
	for _, d := range at {
		percents = append(percents, m.percent(sandbox.Usage{CPU: used[d]}, time.Unix(0, 0).Add(d)))
	}
	return percents
}
