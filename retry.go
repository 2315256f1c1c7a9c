package stint

import (
	"math"
	"slices"
	"time"
)

// Retries lets a run start again after an attempt failed.
type Retries struct {
	Max     int      `json:"max,omitempty"` // how often a run may start again
	On      []Reason `json:"on,omitempty"`  // reasons after which it does; the default is worker_lost
	Backoff *Backoff `json:"backoff,omitempty"`
	// From is RetryFromCheckpoint (the default) or RetryFromStart.
	From string `json:"from,omitempty"`
}

// Backoff sets the pauses before retries: Initial before the first one, and each
// further pause is longer by Factor, up to Max. The durations use Go's syntax.
type Backoff struct {
	Initial string  `json:"initial,omitempty"`
	Factor  float64 `json:"factor,omitempty"`
	Max     string  `json:"max,omitempty"`
}

// The values of Retries.From: the files from which a retry starts.
const (
	RetryFromCheckpoint = "checkpoint" // home and workspace that the failed attempt left
	RetryFromStart      = "start"      // home and workspace as for the first attempt, with the artifact's current version
)

// RetryReasons lists the valid values of Retries.On.
var RetryReasons = []Reason{ReasonWorkerLost, ReasonSandboxError, ReasonSetupFailed, ReasonExitCode, ReasonTimeLimit, ReasonOutOfMemory}

// Defaults of Backoff.
const (
	DefaultRetryPause    = time.Second
	DefaultRetryFactor   = 2
	DefaultMaxRetryPause = time.Minute
)

// After reports whether a run starts again after the attempt with the given number
// (1, 2, 3 …) ended for a reason, and returns the pause before the next attempt. A
// nil r allows no retries.
func (r *Retries) After(reason Reason, attempt int) (pause time.Duration, ok bool) {
	if r == nil || attempt > r.Max {
		return 0, false
	}
	on := r.On
	if len(on) == 0 {
		on = []Reason{ReasonWorkerLost}
	}
	if !slices.Contains(on, reason) {
		return 0, false
	}
	initial, factor, longest := r.Backoff.Values()
	return min(time.Duration(min(float64(initial)*math.Pow(factor, float64(attempt-1)), float64(longest))), longest), true
}

// Values returns the parts of b with their defaults. The durations must be valid.
func (b *Backoff) Values() (initial time.Duration, factor float64, longest time.Duration) {
	initial, factor, longest = DefaultRetryPause, DefaultRetryFactor, DefaultMaxRetryPause
	if b == nil {
		return initial, factor, longest
	}
	if b.Initial != "" {
		initial, _ = time.ParseDuration(b.Initial)
	}
	if b.Factor != 0 {
		factor = b.Factor
	}
	if b.Max != "" {
		longest, _ = time.ParseDuration(b.Max)
	} else {
		longest = max(longest, initial)
	}
	return initial, factor, longest
}
