package worker_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/framework"
	"github.com/stint-dev/stint/internal/framework/transcript"
	"github.com/stint-dev/stint/internal/sandbox"
	"github.com/stint-dev/stint/internal/sandbox/sandboxtest/fake"
	"github.com/stint-dev/stint/internal/store"
)

// TestBackpressure checks that the writes of an agent block while appends to the journal
// block, even if the output becomes log entries or tool calls with little text. When
// appends continue, all output is stored, and the size of each append is limited.
func TestBackpressure(t *testing.T) {
	t.Parallel()
	const most = 256 // maximum number of events, and of log entries, in an append
	call := events(transcript.Call(stint.ToolItem{ID: "t", Name: "x", Title: "x", Input: json.RawMessage(`"` + strings.Repeat("i", 32<<10) + `"`)}))
	b, err := json.Marshal(call)
	check(t, err)
	for name, flood := range map[string]struct {
		native bool
		line   string
		lines  int // number of lines in each write
		writes int
		size   int // bytes that each line adds to an append, at least
	}{
		"lines": {native: true, line: "{}\n", lines: 100, writes: 80, size: 512},
		"tools": {line: string(b) + "\n", lines: 1, writes: 80, size: 32 << 10},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			open, wrote := make(chan struct{}), make(chan struct{})
			var early atomic.Bool
			var lines, largest, left atomic.Int64
			d := &hookedDispatcher{}
			count := func(events []stint.Event, logs []stint.LogEntry) {
				n := 0
				for _, e := range events {
					if e.Type == stint.EventOutput {
						n++
					}
				}
				for _, l := range logs {
					if l.Metadata["native"] == true {
						n++
					}
				}
				lines.Add(int64(n))
				largest.Store(max(largest.Load(), int64(n*flood.size)))
			}
			d.onAppend = func(b store.Batch) error {
				if len(b.Logs) > most || len(b.Events) > most {
					t.Errorf("an append of %d events and %d entries", len(b.Events), len(b.Logs))
				}
				<-open
				count(b.Events, b.Logs)
				return nil
			}
			d.onFinish = func(o store.Outcome) error {
				left.Store(int64(len(o.Logs)))
				count(nil, o.Logs)
				return nil
			}
			p := &scriptedFramework{native: flood.native, verdict: framework.Verdict{Completed: true}}
			w := newScriptedWorld(t, p, func(_ context.Context, b *fake.Proc) sandbox.Exit {
				var writing sync.WaitGroup
				writing.Go(func() {
					for range flood.writes {
						write(b.Stdout, strings.Repeat(flood.line, flood.lines))
					}
					close(wrote)
				})
				select {
				case <-wrote:
					early.Store(true)
				case <-b.Term: // a blocked agent shows no activity, so the idle limit ends the run
				}
				close(open)
				writing.Wait()
				return sandbox.Exit{Code: 143, Signal: 15, Cause: sandbox.Killed}
			}, withDispatcher(d))
			w.run(`{"framework":"acp","command":["x"],"limits":{"idleTimeout":"1s"}}`, stint.NewRun{})
			if early.Load() {
				t.Error("the agent wrote everything although nothing was appended")
			}
			if got, want := lines.Load(), int64(flood.lines*flood.writes); got != want {
				t.Errorf("%d of %d lines are stored", got, want)
			}
			if got := largest.Load(); got > 512<<10 {
				t.Errorf("an append has more than %d bytes", got)
			}
			if left.Load() > most {
				t.Errorf("the finish has %d entries", left.Load())
			}
		})
	}
}
