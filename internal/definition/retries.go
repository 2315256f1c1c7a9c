package definition

import (
	"fmt"
	"time"

	"github.com/stint-dev/stint"
)

// Limits of retries.backoff.
const (
	maxPause  = 24 * time.Hour
	maxFactor = 100
)

// retries checks the members of retries.
func (l *errorList) retries(r *stint.Retries) {
	if r == nil {
		return
	}
	if r.Max < 0 || r.Max > stint.MaxRetries {
		l.invalid("retries.max", "'retries.max' must be between 0 and %d.", stint.MaxRetries)
	}
	allowed := make([]string, len(stint.RetryReasons))
	for i, reason := range stint.RetryReasons {
		allowed[i] = string(reason)
	}
	if r.On != nil && len(r.On) == 0 {
		l.invalid("retries.on", "'retries.on' is empty. List the reasons after which a run starts again, or omit 'on' for worker_lost.")
	}
	for i, reason := range r.On {
		at := fmt.Sprintf("retries.on[%d]", i)
		if reason == "" {
			l.invalid(at, "'%s' must be a status reason such as worker_lost.", at)
		}
		l.oneOf(at, string(reason), allowed)
	}
	l.oneOf("retries.from", r.From, []string{stint.RetryFromCheckpoint, stint.RetryFromStart})
	if r.Backoff != nil {
		l.backoff(r.Backoff)
	}
}

func (l *errorList) backoff(b *stint.Backoff) {
	valid := true
	for _, member := range [][2]string{{"initial", b.Initial}, {"max", b.Max}} {
		name, value := member[0], member[1]
		if d, err := time.ParseDuration(value); value != "" && (err != nil || d < 0 || d > maxPause) {
			l.invalid("retries.backoff."+name, "'retries.backoff.%s' must be a duration between 0s and 24h, such as 10s or 5m.", name)
			valid = false
		}
	}
	if b.Factor != 0 && (b.Factor < 1 || b.Factor > maxFactor) {
		l.invalid("retries.backoff.factor", "'retries.backoff.factor' must be between 1 and %d.", maxFactor)
	}
	if initial, _, longest := b.Values(); valid && initial > longest {
		l.invalid("retries.backoff.max", "'retries.backoff.max' must not be shorter than 'retries.backoff.initial' (%s).", initial)
	}
}
