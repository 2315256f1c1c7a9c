package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/framework"
	"github.com/stint-dev/stint/internal/framework/transcript"
	"github.com/stint-dev/stint/internal/jsonschema"
	"github.com/stint-dev/stint/internal/plainjson"
	"github.com/stint-dev/stint/internal/sandbox"
	"github.com/stint-dev/stint/internal/worker/output"
	"github.com/stint-dev/stint/internal/worker/usage"
)

// maxResult is the longest final message that a run stores, in bytes.
const maxResult = 256 << 10

// outcome is the result of a run.
type outcome struct {
	status   stint.Status
	reason   stint.Reason
	message  string // error message; empty on success
	exitCode *int
	result   json.RawMessage
	discard  bool // the run was ended by another process, or is not owned any more
}

// facts are the inputs of decide.
type facts struct {
	cause   error // why the run's context ended; nil if it did not
	exit    sandbox.Exit
	verdict framework.Verdict // with a masked final message
	ended   bool              // the agent's terminal event was decoded
	limits  limits
	schema  json.RawMessage // schema of the final message; nil if the message is text
}

// limits contains the limits of a run that messages mention.
type limits struct {
	time, idle time.Duration
	output     int64 // bytes
}

func (s *state) facts(ctx context.Context, exit sandbox.Exit) facts {
	f := facts{cause: context.Cause(ctx), exit: exit, limits: s.limits(), schema: s.definition().Schema()}
	f.verdict, f.ended = s.output.Verdict(exit.Code)
	f.verdict.Final = s.masker.Mask(f.verdict.Final)
	return f
}

func (s *state) limits() limits {
	if s.a.Plan == nil {
		return limits{time: stint.DefaultTimeout}
	}
	return limits{s.a.Plan.Timeout, s.idleLimit(), s.a.Plan.OutputBytes}
}

// decide returns the outcome of a run. If a limit, a cancel, or the loss of ownership
// ended the run, this cause determines the outcome. Otherwise, commandOutcome does.
func decide(f facts) outcome {
	o, interrupted := interruption(f.cause, f.limits)
	if !interrupted {
		o = commandOutcome(f)
	}
	if f.exit.Cause == sandbox.Exited {
		o.exitCode = &f.exit.Code
	}
	return o
}

// interruption returns the outcome of a run that was ended for a cause. If cause is
// nil, interrupted is false.
func interruption(cause error, l limits) (o outcome, interrupted bool) {
	if cause == nil {
		return outcome{}, false
	}
	if over, ok := errors.AsType[*usage.BudgetError](cause); ok {
		return failed(stint.ReasonBudget, over.Error()), true
	}
	switch {
	case errors.Is(cause, errTimeLimit):
		o = outcome{status: stint.TimedOut, reason: stint.ReasonTimeLimit, message: fmt.Sprintf("The run exceeded its time limit of %s.", l.time)}
	case errors.Is(cause, errIdle):
		o = outcome{status: stint.TimedOut, reason: stint.ReasonIdleLimit, message: fmt.Sprintf("The agent was inactive for %s, its idle limit (limits.idleTimeout).", l.idle)}
	case errors.Is(cause, output.ErrNotReading):
		o = failed(stint.ReasonExitCode, "The agent does not read its standard input and was ended.")
	case errors.Is(cause, output.ErrLimit):
		o = failed(stint.ReasonOutputLimit, fmt.Sprintf("The agent wrote more output than its limit (limits.outputBytes: %s).", stint.Size(l.output)))
	default:
		o = outcome{discard: true}
	}
	return o, true
}

func failed(reason stint.Reason, message string) outcome {
	return outcome{status: stint.Failed, reason: reason, message: message}
}

// commandOutcome returns the outcome of a command that ended by itself.
func commandOutcome(f facts) (o outcome) {
	switch cause := f.exit.Cause; {
	case cause == sandbox.OOMKilled:
		o = failed(stint.ReasonOutOfMemory, "The agent used more memory than its limit and was killed. Raise resources.memory in the agent's definition.")
		o.exitCode = &f.exit.Code
	case cause == sandbox.DiskFull:
		o = failed(stint.ReasonDiskFull, "The agent wrote more to disk than its limit. Raise resources.disk in the agent's definition.")
	case f.ended: // after the terminal event, the exit of the process does not matter
		o = frameworkOutcome(f.verdict, f.schema)
	case cause == sandbox.Lost || cause == sandbox.Killed:
		o = failed(stint.ReasonSandboxError, "The sandbox ended before the agent did.")
	case cause == sandbox.Signalled:
		o = failed(stint.ReasonExitCode, fmt.Sprintf("The agent's command was ended by signal %d.", f.exit.Signal))
		o.exitCode = &f.exit.Code
	default:
		o = frameworkOutcome(f.verdict, f.schema)
	}
	return o
}

// frameworkOutcome returns the outcome of the framework's verdict, with the final
// message as the result. If the definition has a schema for the message, only a completed
// run has a result, and the run fails if the message does not match the schema.
func frameworkOutcome(v framework.Verdict, schema json.RawMessage) outcome {
	o := outcome{status: stint.Completed}
	if !v.Completed {
		if v.Reason == "" {
			v.Reason = stint.ReasonExitCode
		}
		o = failed(v.Reason, v.Message)
	}
	switch {
	case schema == nil && v.Final != "":
		short, _ := transcript.Shorten(strings.ToValidUTF8(v.Final, "\uFFFD"), maxResult)
		o.result, _ = plainjson.Marshal(short) // cannot fail for a string
	case schema != nil && v.Completed:
		value, err := jsonschema.ParseResult(schema, v.Final)
		if err != nil {
			return failed(stint.ReasonMismatch, fmt.Sprintf("The agent's last message does not match output.schema: %v", err))
		}
		o.result = value
	}
	return o
}

// setupFailed returns the outcome of a run after a failed step. The agent's command has
// not started.
func (s *state) setupFailed(step string, err error) outcome {
	s.recordFailure(err)
	if s.life.endedBy(errTimeLimit) {
		s.log.Error("the time limit passed before the sandbox had started", "step", step, "error", err)
		return failed(stint.ReasonSandboxError, fmt.Sprintf("The sandbox did not start within the run's time limit of %s (step: %s). "+
			"Start the run again; if it fails again, the server's operator can run 'stint doctor'.", s.limits().time, step))
	}
	if o, ok := interruption(context.Cause(s.life.ctx), s.limits()); ok {
		return o
	}
	if user, ok := errors.AsType[*stint.Error](err); ok {
		return failed(stint.ReasonSetupFailed, user.Message)
	}
	if setup, ok := errors.AsType[*sandbox.Error](err); ok {
		return failed(stint.ReasonSetupFailed, setup.Message)
	}
	s.log.Error("run could not be executed", "step", step, "error", err)
	if errors.Is(err, sandbox.ErrTimeLimit) || errors.Is(err, context.DeadlineExceeded) {
		return failed(stint.ReasonSandboxError, fmt.Sprintf("The sandbox did not start: the server's machine did not set it up within %s. "+
			"Start the run again; if it fails again, the server's operator can run 'stint doctor'.", s.SetupLimit))
	}
	return failed(stint.ReasonSandboxError, "The run could not be set up because of a fault of the server (step: "+step+"). Try again; the server's log has the details.")
}
