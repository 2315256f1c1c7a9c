package run

import (
	"context"
	"sync"
	"time"

	"github.com/stint-dev/stint/internal/framework/transcript"
	"github.com/stint-dev/stint/internal/sandbox"
)

// maxInterrupt is the longest time that an agent has to react to an interrupt.
const maxInterrupt = 5 * time.Second

// supervise waits for the end of the command, or ends it, and sets the outcome. When
// supervise returns, all processes of the agent have ended.
func supervise(ctx context.Context, s *state) (undo, error) {
	begin := s.Now()
	s.meter.Heard(begin)
	watching, stop := context.WithCancel(context.WithoutCancel(ctx))
	var watchers sync.WaitGroup
	for _, watch := range []func(context.Context){s.sampleUsage, s.limitIdle, s.watchBudget} {
		watchers.Go(func() { watch(watching) })
	}
	exited := make(chan sandbox.Exit, 1)
	go func() { exited <- s.wait(ctx) }()
	exit := s.await(ctx, exited)
	stop()
	watchers.Wait()
	s.stdin.CloseWrite()
	s.disconnect()
	s.checkBudget() // includes model calls that watchBudget had not noticed when it ended
	s.output.CloseOutput()
	s.output.System("info", "The agent's command ended.", map[string]any{
		"exitCode": exit.Code, "cause": string(exit.Cause), "durationMs": s.Now().Sub(begin).Milliseconds(),
	})
	s.outcome = decide(s.facts(ctx, exit))
	s.warnOfMemoryKills()
	return nil, nil
}

// wait waits for the end of the command and returns its exit. After an error, the
// cause of the exit is sandbox.Lost.
func (s *state) wait(ctx context.Context) sandbox.Exit {
	exit, err := s.sandbox.Wait(context.WithoutCancel(ctx))
	if err != nil {
		s.log.Error("wait for command", "error", err)
		return sandbox.Exit{Code: -1, Cause: sandbox.Lost}
	}
	return exit
}

// await waits for the end of the command and returns its exit. It ends the command if
// ctx ends, or if the agent does not exit within ExitGrace after its terminal event:
// some programs do not exit by themselves. It kills processes that the command left.
func (s *state) await(ctx context.Context, exited <-chan sandbox.Exit) sandbox.Exit {
	ended := (<-chan struct{})(s.ended)
	var graceOver <-chan time.Time
	for {
		select {
		case exit := <-exited:
			s.kill(ctx, 0)
			return exit
		case <-ended:
			ended = nil
			graceOver = time.After(s.ExitGrace)
		case <-graceOver:
			s.output.System("warn", "The agent did not exit after its terminal event and was killed.", nil)
			s.kill(ctx, s.CancelGrace)
			return <-exited
		case <-ctx.Done():
			return s.end(ctx, exited)
		}
	}
}

// end ends the command. If the framework has an interrupt and there is a grace time, end
// writes the interrupt to the agent's standard input and waits for at most half of the
// grace time and maxInterrupt. If the command has not ended by then, end sends signals.
func (s *state) end(ctx context.Context, exited <-chan sandbox.Exit) sandbox.Exit {
	grace := s.killGrace()
	if interrupt := s.output.Interrupt(); len(interrupt) > 0 && grace > 0 {
		begin := time.Now()
		s.stdin.Write(interrupt)
		s.stdin.CloseWrite()
		select {
		case exit := <-exited:
			s.kill(ctx, 0)
			return exit
		case <-time.After(min(grace/2, maxInterrupt)):
		}
		grace -= min(grace, time.Since(begin))
	}
	s.kill(ctx, grace)
	return <-exited
}

// killGrace returns the time between SIGTERM and SIGKILL, or 0 to send only SIGKILL.
func (s *state) killGrace() time.Duration {
	switch {
	case s.life.endedBy(errTimeLimit):
		return s.TimeoutGrace
	case s.life.endedBy(ErrLeaseLost):
		return 0
	}
	return s.CancelGrace
}

func (s *state) kill(ctx context.Context, grace time.Duration) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace+10*time.Second)
	defer cancel()
	if err := s.sandbox.Kill(ctx, grace); err != nil {
		s.log.Error("kill sandbox", "error", err)
	}
}

// watchBudget checks the budget whenever usage was added, until ctx ends.
func (s *state) watchBudget(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.meter.Changed():
			s.checkBudget()
		}
	}
}

// checkBudget adds a warning to the output when a limit is nearly reached, once for
// each limit, and ends a run that exceeds a limit.
func (s *state) checkBudget() {
	warnings, err := s.meter.Check()
	for _, warning := range warnings {
		s.output.Notice(transcript.Notice("budget", warning))
	}
	if err != nil {
		s.life.cancel(err)
	}
}
