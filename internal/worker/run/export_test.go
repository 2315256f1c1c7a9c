package run

import (
	"time"

	"github.com/stint-dev/stint/internal/sandbox"
)

// Percents returns the CPU use of measurements at those times. used is the CPU
// time by then.
func Percents(used map[time.Duration]time.Duration, at ...time.Duration) (percents []float64) {
	var m cpuMeter
	for _, d := range at {
		percents = append(percents, m.percent(sandbox.Usage{CPU: used[d]}, time.Unix(0, 0).Add(d)))
	}
	return percents
}
