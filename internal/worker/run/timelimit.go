package run

import (
	"context"
	"errors"
	"time"

	"github.com/stint-dev/stint"
)

// The causes with which the time limit and the idle limit end a run's context.
var (
	errTimeLimit = errors.New("time limit")
	errIdle      = errors.New("idle limit")
)

// defaultIdle is the idle limit of agents that use a protocol, if their
// definition has no limit. Most of these programs sometimes hang without output.
// Their own tools end after at most ten minutes, and the built-in assistant
// reports that a command is still running.
const defaultIdle = 30 * time.Minute

// limitTime ends the run after its time limit.
func (s *state) limitTime() (stop func()) {
	timer := time.AfterFunc(s.timeLeft(), func() { s.life.cancel(errTimeLimit) })
	return func() { timer.Stop() }
}

// timeLeft returns the time limit less the time since the start of the attempt.
func (s *state) timeLeft() time.Duration {
	if s.a.Plan == nil {
		return stint.DefaultTimeout
	}
	if s.a.StartedAt.IsZero() {
		return s.a.Plan.Timeout
	}
	return s.a.Plan.Timeout - s.Now().Sub(s.a.StartedAt.Time)
}

// idleLimit returns the time after which a run without activity is ended; 0 is
// unlimited.
func (s *state) idleLimit() time.Duration {
	if s.a.Plan == nil {
		return 0
	}
	if limit := s.a.Plan.Limits.Idle(); limit > 0 || !s.plan.Protocol {
		return limit
	}
	return defaultIdle
}

// limitIdle ends the run when it has shown no activity for its idle limit. It returns
// then, or when ctx ends.
func (s *state) limitIdle(ctx context.Context) {
	if limit := s.idleLimit(); limit > 0 && s.meter.WaitIdle(ctx, limit, s.Now) {
		s.life.cancel(errIdle)
	}
}
