package run

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/files"
	"github.com/stint-dev/stint/internal/store"
)

// Bounds of the pause before a failed finish is repeated. If no attempt
// succeeds, the worker's lease expires, which ends the attempts.
const (
	firstRetry = 20 * time.Millisecond
	lastRetry  = time.Second
)

// finish closes the output and stores the outcome. If this worker does not own the run
// any more, finish drops the outcome and calls attachState.
func finish(_ context.Context, s *state) (undo, error) {
	rest := s.output.Close()
	if s.outcome.discard || rest.Fenced {
		s.attachState(rest.Position)
		return nil, nil
	}
	ctx, cancel := s.life.untilStateLost()
	defer cancel()
	o := s.storedOutcome(rest.Logs)
	for wait := firstRetry; ; wait = min(2*wait, lastRetry) {
		err := s.publish(ctx, func() error {
			_, err := s.Dispatcher.Finish(ctx, rest.Position, o)
			return err
		})
		if err == nil {
			s.dropRecord()
			return nil, nil
		}
		if errors.Is(err, files.ErrNotPublished) {
			s.saveFailed(err)
			s.saved = saved{}
			o = s.storedOutcome(rest.Logs)
			continue
		}
		if _, fenced := errors.AsType[*store.FencedError](err); fenced {
			s.attachState(rest.Position)
			return nil, nil
		}
		if s.life.isLost() {
			s.log.Error("finish run; giving up", "error", err)
			s.attachState(rest.Position)
			return nil, nil
		}
		s.log.Warn("finish run; trying again", "error", err)
		select {
		case <-time.After(wait):
		case <-ctx.Done():
		}
	}
}

// storedOutcome returns the outcome in the form that the store expects, with the saved
// state, the usage, and the remaining log entries.
func (s *state) storedOutcome(logs []stint.LogEntry) store.Outcome {
	now := stint.TimeOf(s.Now())
	o := store.Outcome{
		Token: "finish", Status: s.outcome.status, Reason: s.outcome.reason, ExitCode: s.outcome.exitCode, At: now,
		Version: s.saved.version, Checkpoint: s.saved.checkpoint,
		Usage: s.meter.JSON(), Result: s.outcome.result, Logs: logs,
	}
	if started := s.a.StartedAt; !started.IsZero() {
		o.ExecutionTimeMs = max(0, now.Sub(started.Time).Milliseconds())
	}
	if s.driver != nil {
		o.Isolation, o.ImageDigest = s.driver.Name(), s.digest
	}
	if message := s.outcome.message; message != "" {
		text := message
		if tail := s.output.StderrTail(); tail != "" {
			text = strings.TrimRight(text, "\n") + "\n" + tail
		}
		message, text = s.masker.Mask(message), s.masker.Mask(text)
		o.Message, o.Error, o.ErrorCode = &message, &text, string(s.outcome.reason)
	}
	return o
}

// attachState attaches the saved state to a run that another process has ended while
// this worker owned it. It does nothing if no state is saved or the state is lost.
func (s *state) attachState(at store.Position) {
	if s.saved.checkpoint == nil || s.life.stateLost() {
		return
	}
	ctx := context.WithoutCancel(s.life.ctx)
	err := s.publish(ctx, func() error {
		return s.Dispatcher.AddCheckpoint(ctx, at, s.saved.version, *s.saved.checkpoint)
	})
	if _, fenced := errors.AsType[*store.FencedError](err); err != nil && !fenced {
		s.log.Warn("attach the state of a cancelled run", "error", err)
	}
}

// publish calls write, which stores references to the saved snapshots in the database.
// Before each call, it sets the epoch that belongs to the snapshots.
func (s *state) publish(ctx context.Context, write func() error) error {
	return s.Library.Publish(ctx, s.a.OrgID, s.saved.snapshots, func(epoch int64) error {
		s.saved.setEpoch(epoch)
		return write()
	})
}
