package sandboxtest

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/stint-dev/stint/internal/sandbox"
)

// endCases test how a sandbox ends.
var endCases = map[string]func(*world){
	"kill sends SIGTERM":                        killSendsTerm,
	"kill sends SIGKILL after the grace period": killAfterGrace,
	"kill without a grace period":               killAtOnce,
	"kill before start":                         killBeforeStart,
	"kill after the exit":                       killAfterEnd,
	"kill during start":                         killDuringStart,
	"kill twice":                                killTwice,
	"close while running":                       closeWhileRunning,
	"close twice":                               closeTwice,
	"close without start":                       func(w *world) { w.must(w.prepare(w.spec()).Close(w.Context())) },
	"wait with a canceled context":              waitBounded,
	"several callers wait":                      severalCallersWait,
	"start with a canceled context":             startBounded,
}

func (w *world) startReady(args ...string) *running {
	w.Helper()
	r := w.launch(w.spec(), args...)
	w.awaitText(r.stdout, "ready")
	return r
}

func killSendsTerm(w *world) {
	r := w.startReady("hang")
	w.kill(r, testTimeout)
	w.wantExit(r, sandbox.Exit{Code: 7, Cause: sandbox.Killed})
}

var killedExit = sandbox.Exit{Code: 137, Signal: 9, Cause: sandbox.Killed}

func killAfterGrace(w *world) {
	r := w.startReady("ignore-term")
	w.kill(r, 20*time.Millisecond)
	w.wantExit(r, killedExit)
}

func killAtOnce(w *world) {
	r := w.startReady("ignore-term")
	w.kill(r, 0)
	w.wantExit(r, killedExit)
}

func killBeforeStart(w *world) {
	b := w.prepare(w.spec())
	w.must(b.Kill(w.Context(), time.Second))
	if err := b.Start(w.Context(), command("exit", "0")); err == nil {
		w.Error("Start after Kill succeeds")
	}
}

func killAfterEnd(w *world) {
	r := w.launch(w.spec(), "exit", "3")
	w.wantExit(r, sandbox.Exit{Code: 3, Cause: sandbox.Exited})
	w.kill(r, testTimeout)
	w.wantExit(r, sandbox.Exit{Code: 3, Cause: sandbox.Exited})
}

// killDuringStart calls Kill concurrently with Start, so Kill runs before, during, or after
// Start. In each case, both calls must return, and a command that was started must end
// as killed.
func killDuringStart(w *world) {
	for range 10 {
		b := w.prepare(w.spec())
		var started error
		var both sync.WaitGroup
		both.Go(func() { started = b.Start(w.Context(), command("ignore-term")) })
		both.Go(func() { w.kill(&running{Sandbox: b}, 0) })
		both.Wait()
		if started != nil {
			continue
		}
		w.wantExit(&running{b, newOutput(), newOutput()}, killedExit)
	}
}

func killTwice(w *world) {
	r := w.startReady("ignore-term")
	var both sync.WaitGroup
	both.Go(func() { w.kill(r, testTimeout) })
	both.Go(func() { w.kill(r, 0) }) // must not wait for the grace period of the first call
	both.Wait()
	w.kill(r, 0)
	w.wantExit(r, killedExit)
}

func closeWhileRunning(w *world) {
	r := w.startReady("ignore-term")
	w.must(r.Close(w.Context()))
	w.wantExit(r, killedExit)
}

func closeTwice(w *world) {
	r := w.launch(w.spec(), "exit", "0")
	w.wait(r)
	var both sync.WaitGroup
	for range 2 {
		both.Go(func() {
			if err := r.Close(w.Context()); err != nil {
				w.Errorf("Close: %v", err)
			}
		})
	}
	both.Wait()
	w.must(r.Close(w.Context()))
	w.must(r.Kill(w.Context(), time.Second))
}

func waitBounded(w *world) {
	r := w.startReady("hang")
	cause := errors.New("the caller's reason")
	ctx, cancel := context.WithCancelCause(w.Context())
	cancel(cause)
	if _, err := r.Wait(ctx); !errors.Is(err, cause) {
		w.Errorf("Wait: %v, want the context's cause", err)
	}
	w.kill(r, 0)
}

func severalCallersWait(w *world) {
	r := w.startReady("hang")
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() { w.wantExit(r, sandbox.Exit{Code: 7, Cause: sandbox.Killed}) })
	}
	w.kill(r, testTimeout)
	all.Wait()
}

func startBounded(w *world) {
	ctx, cancel := cancelled(w)
	defer cancel()
	r := &running{w.prepare(w.spec()), newOutput(), newOutput()}
	c := command("ignore-term")
	c.Stdout = r.stdout
	if err := r.Start(ctx, c); err == nil {
		w.Error("Start succeeds with a canceled context")
	} else if strings.TrimSpace(err.Error()) == "" {
		w.Error("the error is empty")
	}
}
