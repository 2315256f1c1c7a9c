package worker

import (
	"time"

	"github.com/stint-dev/stint/internal/sandbox"
)

// PoolSize is how many sandboxes wait that were prepared ahead.
func (e *Worker) Pooled() int { return e.pool.Size() }

// Percent gives the CPU use that samples tell which were taken at those times
// and found that much used.
func Percent(used map[time.Duration]time.Duration, at ...time.Duration) (told []float64) {
	var s sampler
	for _, d := range at {
		told = append(told, s.percent(sandbox.Usage{CPU: used[d]}, time.Unix(0, 0).Add(d)))
	}
	return told
}
