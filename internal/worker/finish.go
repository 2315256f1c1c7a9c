package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/sandbox"
	"github.com/stint-dev/stint/internal/store"
)

// ending says how a run ended, before its state is stored.
type ending struct {
	status   stint.Status
	reason   stint.Reason
	message  string // of the error; empty on success
	exitCode *int
	final    string // the agent's last message
	result   json.RawMessage
	discard  bool // the run is somebody else's, or ended by other hands
}

// failure is the ending of a run that never got to its command's end.
func (j *job) failure(step string, err error) ending {
	if end, ok := j.interrupted(); ok {
		return end
	}
	var user *stint.Error
	var setup *sandbox.Error
	switch {
	case errors.As(err, &user):
		return ending{status: stint.Failed, reason: stint.ReasonSetupFailed, message: user.Message}
	case errors.As(err, &setup):
		return ending{status: stint.Failed, reason: stint.ReasonSetupFailed, message: setup.Message}
	}
	j.log.Error("run could not be executed", "step", step, "error", err)
	return ending{status: stint.Failed, reason: stint.ReasonSandboxError, message: "The run could not be set up because of a fault of the server (step: " + step + "). Try again; the server's log has the details."}
}

// interrupted is the ending that the job's context was ended with, if it was.
func (j *job) interrupted() (ending, bool) {
	switch {
	case j.ctx.Err() == nil:
		return ending{}, false
	case j.ended(errTimeLimit):
		return ending{status: stint.TimedOut, reason: stint.ReasonTimeLimit, message: fmt.Sprintf("The run exceeded its time limit of %s.", j.a.Plan.Timeout)}, true
	case j.ended(errBudget):
		over, _ := errors.AsType[overBudget](context.Cause(j.ctx))
		return over.ending(), true
	case j.ended(errIdle):
		return ending{status: stint.TimedOut, reason: stint.ReasonTimeLimit, message: fmt.Sprintf("Nothing was heard of the agent for %s, its idle limit (limits.idleTimeout).", j.idleLimit())}, true
	case j.ended(errDeaf):
		return ending{status: stint.Failed, reason: stint.ReasonExitCode, message: "The agent does not read what it asks for and was ended."}, true
	case j.ended(errOutputLimit):
		return ending{status: stint.Failed, reason: stint.ReasonOutputLimit, message: fmt.Sprintf("The agent wrote more than %s of output.", stint.Size(j.a.Plan.OutputBytes))}, true
	}
	return ending{discard: true}, true
}

// judge says what the end of the command means for the run: limits first, then
// the framework's word.
func (j *job) judge(exit sandbox.Exit) ending {
	end, interrupted := j.interrupted()
	if !interrupted {
		end = j.verdict(exit)
	}
	if exit.Cause == sandbox.Exited {
		end.exitCode = &exit.Code
	}
	return j.withResult(end)
}

func (j *job) verdict(exit sandbox.Exit) ending {
	code := exit.Code
	if _, spoke := j.record.verdict(exit.Code); spoke && exit.Cause != sandbox.OOMKilled && exit.Cause != sandbox.DiskFull {
		return j.spoken(exit) // how its process ended after its last word says nothing
	}
	switch exit.Cause {
	case sandbox.OOMKilled:
		return ending{status: stint.Failed, reason: stint.ReasonOutOfMemory, message: "The agent used more memory than its limit and was killed. Raise resources.memory in the agent's definition.", exitCode: &code}
	case sandbox.DiskFull:
		return ending{status: stint.Failed, reason: stint.ReasonDiskFull, message: "The agent wrote more to disk than its limit. Raise resources.disk in the agent's definition."}
	case sandbox.Lost, sandbox.Killed:
		return ending{status: stint.Failed, reason: stint.ReasonSandboxError, message: "The sandbox ended before the agent did."}
	case sandbox.Signalled:
		return ending{status: stint.Failed, reason: stint.ReasonExitCode, message: fmt.Sprintf("The agent's command was ended by signal %d.", exit.Signal), exitCode: &code}
	}
	return j.spoken(exit)
}

// spoken is the framework's word on the end.
func (j *job) spoken(exit sandbox.Exit) ending {
	v, _ := j.record.verdict(exit.Code)
	if v.Completed {
		return ending{status: stint.Completed, final: v.Final}
	}
	if v.Reason == "" {
		v.Reason = stint.ReasonExitCode
	}
	return ending{status: stint.Failed, reason: v.Reason, message: v.Message, final: v.Final}
}

// finish stores the run's state and ends it. Who lost the run to others keeps
// its state where it may and discards the rest.
func (j *job) finish(end ending) {
	if end.discard && j.forfeited() {
		j.record.close()
		return
	}
	state, err := j.snapshot()
	if err != nil {
		var message string
		end, message = j.stateLost(end, err)
		j.record.system("error", message, nil)
	}
	at, logs, owned := j.record.close()
	if end.discard || !owned {
		j.keep(at, state)
		return
	}
	o := j.outcome(end, state)
	o.Logs = logs
	ctx, cancel := j.holding()
	defer cancel()
	for wait := firstRetry; ; wait = min(2*wait, lastRetry) {
		_, err := j.e.c.Dispatcher.Finish(ctx, at, o)
		if err == nil {
			return
		}
		if errors.Is(err, store.ErrEpoch) {
			if err := state.renew(ctx, j.e.c.Library, j.a.OrgID); err != nil {
				end, _ = j.stateLost(end, err)
				o = j.outcome(end, saved{})
				o.Logs = logs
			}
			continue
		}
		if _, fenced := errors.AsType[*store.FencedError](err); fenced {
			j.keep(at, state)
			return
		}
		if j.givenUp() {
			j.log.Error("finish run; giving up", "error", err)
			j.keep(at, state)
			return
		}
		j.log.Warn("finish run; trying again", "error", err)
		pause(ctx, wait)
	}
}

// stateLost turns a completed run into a failed one: without its files it is
// not complete. Another ending stays what it is.
func (j *job) stateLost(end ending, err error) (_ ending, message string) {
	j.log.Error("store the state of a run", "error", err)
	message = "The agent ended but its files could not be stored. Try again; the server's log has the details."
	if user, ok := errors.AsType[*stint.Error](err); ok {
		message = user.Message
	}
	if !end.discard && end.status == stint.Completed {
		end.status, end.reason, end.message = stint.Failed, stint.ReasonSandboxError, message
	}
	return end, message
}

func (j *job) outcome(end ending, state saved) store.Outcome {
	now := stint.TimeOf(j.e.c.Now())
	o := store.Outcome{
		Token: "finish", Status: end.status, Reason: end.reason, ExitCode: end.exitCode, At: now,
		Version: state.version, Checkpoint: state.checkpoint,
		Usage: j.meter.encoded(), Result: end.result,
	}
	if started := j.a.Run.StartedAt; started != nil {
		o.ExecutionTimeMs = max(0, now.Sub(started.Time).Milliseconds())
	}
	if end.message != "" {
		text := end.message
		if tail := j.record.stderrTail(); tail != "" {
			text = strings.TrimRight(text, "\n") + "\n" + tail
		}
		text = j.record.masker.Mask(text)
		o.Error, o.ErrorCode = &text, string(end.reason)
	}
	return o
}

// How long to wait between tries to reach the store. Without an answer the
// lease is lost soon, which ends the trying.
const (
	firstRetry = 20 * time.Millisecond
	lastRetry  = time.Second
)

// givenUp reports whether the run is lost to this worker.
func (j *job) givenUp() bool { return j.ours.Err() != nil }

// forfeited reports whether what the run leaves is lost with it.
func (j *job) forfeited() bool {
	cause := context.Cause(j.ours)
	return errors.Is(cause, errLeaseLost) || errors.Is(cause, errDrained)
}

// holding is a context that outlives all but the loss of what the run leaves: a
// finish is not given up for an end by other hands, which may be its own.
func (j *job) holding() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(j.ctx))
	stop := context.AfterFunc(j.ours, func() {
		if j.forfeited() {
			cancel()
		}
	})
	return ctx, func() { stop(); cancel() }
}

// keep attaches the state to a run that was cancelled while it was ours.
func (j *job) keep(at store.Position, state saved) {
	if state.checkpoint == nil || j.forfeited() {
		return
	}
	ctx := context.WithoutCancel(j.ctx)
	err := j.e.c.Dispatcher.AddCheckpoint(ctx, at, state.version, *state.checkpoint)
	for errors.Is(err, store.ErrEpoch) {
		if err = state.renew(ctx, j.e.c.Library, j.a.OrgID); err == nil {
			err = j.e.c.Dispatcher.AddCheckpoint(ctx, at, state.version, *state.checkpoint)
		}
	}
	if _, fenced := errors.AsType[*store.FencedError](err); err != nil && !fenced {
		j.log.Warn("keep the state of a cancelled run", "error", err)
	}
}
