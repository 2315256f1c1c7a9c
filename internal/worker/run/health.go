package run

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/sandbox"
)

// maxFailures is the number of failed starts in a row after which a host is unhealthy.
const maxFailures = 3

// Health records whether sandboxes start on this host. After maxFailures failed starts
// in a row, the host is unhealthy until Recovered is called. It is safe for concurrent
// use.
type Health struct {
	log *slog.Logger

	mu       sync.Mutex // guards the fields below
	failures int        // failed starts since the last successful one
	last     *startError
	ill      chan struct{} // closed while the host is unhealthy
}

// NewHealth returns the health of a host without failures.
func NewHealth(log *slog.Logger) *Health { return &Health{log: log, ill: make(chan struct{})} }

// Unhealthy returns a channel that is closed while the host is unhealthy. After a
// recovery, the next call returns another channel.
func (h *Health) Unhealthy() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.ill
}

// Err returns nil if the host is healthy, and otherwise a *stint.Error with the reason.
func (h *Health) Err() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.failures < maxFailures {
		return nil
	}
	why := ""
	if errors.Is(h.last, sandbox.ErrTimeLimit) {
		why = ", and the last one exceeded its time limit"
	}
	return &stint.Error{Kind: stint.KindUnavailable, Code: stint.CodeUnavailable, Cause: h.last, Message: fmt.Sprintf(
		"Sandboxes do not start on this server: the last %d starts failed%s. Runs wait until a trial succeeds. "+
			"Run 'stint doctor' on the server's machine; the server's log has the errors.", h.failures, why)}
}

// started records a successful start. A host that is unhealthy stays so.
func (h *Health) started() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.failures < maxFailures {
		h.failures = 0
	}
}

func (h *Health) failed(err *startError) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.failures++
	h.last = err
	if h.failures == maxFailures {
		h.log.Error("sandboxes do not start; no runs are taken until a trial succeeds", "failures", h.failures, "isolation", err.isolation, "error", err)
		close(h.ill)
	}
}

func (h *Health) recovered() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.failures, h.last, h.ill = 0, nil, make(chan struct{})
	h.log.Info("sandboxes start again; runs are taken")
}

// startError is the error of a start of a sandbox for which the host is responsible.
type startError struct {
	isolation string // isolation of the definition
	err       error
}

func (e *startError) Error() string { return e.err.Error() }
func (e *startError) Unwrap() error { return e.err }

// startFailed marks the error of Prepare, Attach, or Start.
func (s *state) startFailed(err error) error { return &startError{s.definition().Sandbox, err} }

// recordFailure records a failed start. It ignores errors for which the definition is
// responsible, and those of runs that were cancelled or lost meanwhile.
func (s *state) recordFailure(err error) {
	failure, ok := errors.AsType[*startError](err)
	if !ok || s.life.ctx.Err() != nil && !s.life.endedBy(errTimeLimit) {
		return
	}
	if _, ok := errors.AsType[*sandbox.Error](err); ok {
		return
	}
	if _, ok := errors.AsType[*stint.Error](err); ok {
		return
	}
	s.Health.failed(failure)
}

// Try runs a command in a sandbox of the isolator whose start failed last. If this
// succeeds, the host is healthy again.
func (s *Shared) Try(ctx context.Context) error {
	s.Health.mu.Lock()
	last := s.Health.last
	s.Health.mu.Unlock()
	if last == nil {
		return nil
	}
	d, err := s.openDriver(ctx, last.isolation)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 2*s.SetupLimit)
	defer cancel()
	if err := sandbox.TryCommand(ctx, s.Sandboxes(d), s.WorkDir, s.Networked(ctx, d)); err != nil {
		return err
	}
	s.Health.recovered()
	return nil
}
