package worker

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/dispatch"
	"github.com/stint-dev/stint/internal/framework"
	"github.com/stint-dev/stint/internal/sandbox"
	"github.com/stint-dev/stint/internal/sandbox/pool"
	"github.com/stint-dev/stint/internal/worker/agentcli"
	"github.com/stint-dev/stint/internal/worker/checkout"
)

// Why a job's context ends before its command does.
var (
	errStopped     = errors.New("the run ended by other hands")
	errTimeLimit   = errors.New("time limit")
	errOutputLimit = errors.New("output limit")
	errIdle        = errors.New("idle limit")
	errBudget      = errors.New("budget")
	errDeaf        = errors.New("the agent does not read what is written to it")
	errLeaseLost   = errors.New("the worker's lease was lost")
	errDrained     = errors.New("the worker stops")
)

// job is the execution of one run.
type job struct {
	e   *Worker
	a   dispatch.Assignment
	log *slog.Logger

	ctx    context.Context // ends with a cause; cleaning up goes on without it
	cancel context.CancelCauseFunc
	ours   context.Context // ends when the run is not this worker's any more, whatever ended ctx before
	disown context.CancelCauseFunc

	clean   closers
	record  *recorder
	sandbox sandbox.Sandbox
	place   *pool.Dirs

	driver     sandbox.Driver
	image      string   // folder of the unpacked image; empty shows the host's system
	imageEnv   []string // of the image's configuration
	disconnect func()   // ends the way out; what it tried is logged then

	framework framework.Framework
	program   agentcli.CLI
	plan      framework.Plan
	kept      kept
	stdin     *stdin
	lastWord  chan struct{} // closed when the agent has said its last word
	meter     *meter
	spent     chan struct{} // something of the budget was; buffered, 1

	overlays bool               // the sandbox lays folders over each other
	base     *checkout.Checkout // that the workspace is laid over; nil: it is a folder
	upper    string             // folder of what the agent changed of base
	started  bool               // the agent ran, so there is state to keep
}

func newJob(ctx context.Context, e *Worker, a dispatch.Assignment) *job {
	ours, disown := context.WithCancelCause(ctx)
	jctx, cancel := context.WithCancelCause(ours)
	return &job{
		e: e, a: a, log: e.c.Logger.With("run", a.Run.ID), ctx: jctx, cancel: cancel, ours: ours, disown: disown,
		disconnect: func() {}, stdin: newStdin(), lastWord: make(chan struct{}), meter: newMeter(&a), spent: make(chan struct{}, 1),
	}
}

// run works the assignment to its end. It always finishes and cleans up.
func (j *job) run() {
	defer j.disown(nil)
	defer func() {
		if err := j.clean.run(context.WithoutCancel(j.ctx)); err != nil {
			j.log.Error("clean up after run", "error", err)
		}
	}()
	stopWatching := j.watch()
	defer stopWatching()
	j.finish(j.work())
}

// work runs the steps up to the end of the command and says how it ended.
func (j *job) work() ending {
	j.openRecorder()
	if j.a.Err != nil {
		return j.failure("prepare", j.a.Err)
	}
	if err := j.choose(); err != nil {
		return j.failure("check the definition", err)
	}
	if err := j.materialise(); err != nil {
		return j.failure("materialise", err)
	}
	if err := j.launch(); err != nil {
		return j.failure("launch", err)
	}
	return j.supervise()
}

// supervise waits for the command or for a reason to end it, and leaves no
// process behind.
func (j *job) supervise() ending {
	begin := j.e.c.Now()
	stopSampling := j.sample()
	exited := make(chan sandbox.Exit, 1)
	go func() {
		exit, err := j.sandbox.Wait(context.WithoutCancel(j.ctx))
		if err != nil {
			j.log.Error("wait for command", "error", err)
			exit = sandbox.Exit{Code: -1, Cause: sandbox.Lost}
		}
		exited <- exit
	}()
	j.meter.hear(begin)
	stopIdling, stopAccounting := j.idle(), j.accounting()
	exit := j.await(exited)
	stopAccounting()
	stopIdling()
	stopSampling()
	j.stdin.hangUp()
	j.disconnect()
	j.account() // the last call of the model counts, whether or not the agent was quicker
	j.record.closeOutput()
	j.record.system("info", "The agent's command ended.", map[string]any{
		"exitCode": exit.Code, "cause": string(exit.Cause), "durationMs": j.e.c.Now().Sub(begin).Milliseconds(),
	})
	return j.judge(exit)
}

// await waits for the command's end or brings it about: first by asking where
// the framework knows how to, then by signals. The agent's last word ends the
// run too, for some programs stay after it. Nothing lives when it returns.
func (j *job) await(exited <-chan sandbox.Exit) sandbox.Exit {
	farewell := make(<-chan time.Time)
	lastWord := (<-chan struct{})(j.lastWord)
	for {
		select {
		case exit := <-exited:
			j.kill(0)
			return exit
		case <-lastWord:
			lastWord = nil
			timer := time.NewTimer(j.e.c.ExitGrace)
			defer timer.Stop()
			farewell = timer.C
		case <-farewell:
			j.record.system("warn", "The agent did not end after its last word and was killed.", nil)
			j.kill(j.e.c.CancelGrace)
			return <-exited
		case <-j.ctx.Done():
			return j.end(exited)
		}
	}
}

// end ends the command before it ends itself.
func (j *job) end(exited <-chan sandbox.Exit) sandbox.Exit {
	grace := j.grace()
	if ask := j.record.interrupt(); len(ask) > 0 && grace > 0 {
		begin := time.Now()
		j.stdin.write(ask)
		j.stdin.hangUp()
		timer := time.NewTimer(min(grace/2, maxAsking))
		defer timer.Stop()
		select {
		case exit := <-exited:
			j.kill(0)
			return exit
		case <-timer.C:
		}
		grace -= min(grace, time.Since(begin))
	}
	j.kill(grace)
	return <-exited
}

// maxAsking is how long an agent that was asked to end has for it.
const maxAsking = 5 * time.Second

// ended reports whether the job's context ended for one of the causes.
func (j *job) ended(causes ...error) bool {
	cause := context.Cause(j.ctx)
	return slices.ContainsFunc(causes, func(c error) bool { return errors.Is(cause, c) })
}

func (j *job) grace() time.Duration {
	switch {
	case j.ended(errTimeLimit):
		return j.e.c.TimeoutGrace
	case j.ended(errLeaseLost):
		return 0
	}
	return j.e.c.CancelGrace
}

func (j *job) kill(grace time.Duration) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(j.ctx), grace+10*time.Second)
	defer cancel()
	if err := j.sandbox.Kill(ctx, grace); err != nil {
		j.log.Error("kill sandbox", "error", err)
	}
}

// closers run in the reverse order of their adding.
type closers []func(context.Context) error

func (c *closers) add(f func(context.Context) error) { *c = append(*c, f) }

func (c *closers) run(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	var errs []error
	for _, f := range slices.Backward(*c) {
		errs = append(errs, f(ctx))
	}
	*c = nil
	return errors.Join(errs...)
}

// since is the time from t on, for log metadata.
func (j *job) since(t time.Time) map[string]any {
	return map[string]any{"durationMs": stint.TimeOf(j.e.c.Now()).Sub(stint.TimeOf(t).Time).Milliseconds()}
}
