package bench

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// Sample is a set of measured durations, in ascending order.
type Sample []time.Duration

// SampleOf sorts a copy of the durations.
func SampleOf(d []time.Duration) Sample {
	s := slices.Clone(d)
	slices.Sort(s)
	return s
}

// Quantile is the least duration that at least the share q (0 to 1) of the
// sample does not exceed; 0 for an empty sample.
func (s Sample) Quantile(q float64) time.Duration {
	if len(s) == 0 {
		return 0
	}
	rank := int(math.Ceil(q*float64(len(s)))) - 1
	return s[min(max(rank, 0), len(s)-1)]
}

// Median is the quantile of one half.
func (s Sample) Median() time.Duration { return s.Quantile(0.5) }

// milliseconds is d as a number.
func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// perSecond is a rate; 0 when no time has passed.
func perSecond(n int, d time.Duration) float64 {
	if d <= 0 {
		return 0
	}
	return float64(n) / d.Seconds()
}

// share is a/b; 0 where b is nothing to compare with.
func share[T ~int | ~int64 | ~float64](a, b T) float64 {
	return float64(a) / cmp.Or(float64(b), math.Inf(1))
}
