package storetest

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/store"
)

var appendCases = []testCase{
	{"Append stores the events at the next slots", func(w *world) {
		c := w.home.start()
		b := w.batch("one", "two")
		b.Events[0].Seq = 77 // the store ignores Seq and assigns positions itself
		at := w.append(c.Position, b)
		third := w.batch("three")
		w.append(at, third)
		want := append(b.Events, third.Events...)
		for i := range want {
			want[i].Seq = int64(i + 3)
		}
		w.diff("events", want, w.events(c.Run.ID)[2:])
		w.home.checkRun(c.Run.ID)
	}},
	{"an event's time is not before its predecessor's", func(w *world) {
		c := w.home.start()
		b := w.batch("now", "past", "future", "present")
		b.Events[1].At = later(b.Events[0].At, -time.Hour)
		b.Events[2].At = later(b.Events[0].At, time.Hour)
		at := w.append(c.Position, b)
		w.append(at, w.batch("in the next batch"))
		times := func() (out []stint.Time) {
			for _, e := range w.events(c.Run.ID)[2:] {
				out = append(out, e.At)
			}
			return out
		}
		now, future := b.Events[0].At, b.Events[2].At
		w.diff("times", []stint.Time{now, now, future, future, future}, times())
		w.cancel(w.home.org, c.Run.ID)
		for i, at := range times()[5:] {
			w.diff(fmt.Sprintf("time of end event %d", i), future, at)
		}
		w.home.checkRun(c.Run.ID)
	}},
	{"large and unusual content is returned unchanged", func(w *world) {
		c := w.home.start()
		b := w.batch("", "\x00 <>& \u2028 \U0001F41D", strings.Repeat("a long line ", 20_000))
		w.append(c.Position, b)
		for i, e := range w.events(c.Run.ID)[2:] {
			w.diff("content", data[stint.OutputData](w, b.Events[i]), data[stint.OutputData](w, e))
		}
	}},
	{"a repeated batch is a retry and succeeds", func(w *world) {
		c := w.home.start()
		b := w.batch("one", "two")
		w.append(c.Position, b)
		w.append(c.Position, b)
		w.diff("events", 4, len(w.events(c.Run.ID)))
	}},
	{"a retry succeeds after later batches and after the end", func(w *world) {
		c := w.home.start()
		b := w.batch("one")
		at := w.append(c.Position, b)
		at = w.append(at, w.batch("two"))
		_, err := w.s.Append(w.ctx, c.Position, b)
		w.must(err, "the retry after a later batch")
		w.finish(at, w.outcome(stint.Completed))
		_, err = w.s.Append(w.ctx, c.Position, b)
		w.must(err, "the retry after the end")
		w.diff("events", []string{"pending", "running", "output", "output", "completed", "complete"}, w.kinds(w.events(c.Run.ID), 1))
	}},
	{"concurrent retries store the batch once", func(w *world) {
		c := w.home.start()
		b := w.batch("one", "two")
		w.concurrently(12, func(int) error {
			head, err := w.s.Append(w.ctx, c.Position, b)
			if err == nil && head != 4 {
				err = fmt.Errorf("head %d, want 4", head)
			}
			return err
		})
		w.diff("events", 4, len(w.events(c.Run.ID)))
	}},
	{"another token at a taken slot is fenced", func(w *world) {
		c := w.home.start()
		w.append(c.Position, w.batch("one", "two"))
		_, err := w.s.Append(w.ctx, c.Position, w.batch("other"))
		w.wantFenced(err, c.Run.ID, "Append at a taken slot")
		inside := c.Position
		inside.After++
		_, err = w.s.Append(w.ctx, inside, w.batch("other"))
		w.wantFenced(err, c.Run.ID, "Append inside a stored batch")
		w.diff("events", 4, len(w.events(c.Run.ID)))
	}},
	{"a position beyond the head is refused", func(w *world) {
		c := w.home.start()
		for _, gap := range []int64{1, 2, 100} {
			at := c.Position
			at.After += gap
			_, err := w.s.Append(w.ctx, at, w.batch("late"))
			w.wantFenced(err, c.Run.ID, fmt.Sprintf("Append %d beyond the head", gap))
		}
		w.append(c.Position, w.batch("one"))
		w.home.checkRun(c.Run.ID)
	}},
	{"a position before the first event is refused", func(w *world) {
		c := w.home.start()
		at := c.Position
		at.After = 0
		_, err := w.s.Append(w.ctx, at, w.batch("early"))
		w.wantFenced(err, c.Run.ID, "Append at slot 1")
	}},
	{"appends to a pending run are fenced", func(w *world) {
		n := w.home.create()
		_, err := w.s.Append(w.ctx, store.Position{RunID: n.ID, Epoch: 0, After: 1}, w.batch("early"))
		w.wantFenced(err, n.ID, "Append to a pending run")
		w.home.checkRun(n.ID)
	}},
	{"no append follows the terminal event, even at the reported head", func(w *world) {
		c := w.home.start()
		w.finish(c.Position, w.outcome(stint.Completed))
		_, err := w.s.Append(w.ctx, c.Position, w.batch("late"))
		w.wantFenced(err, c.Run.ID, "Append after the end")
		at := c.Position
		at.After = w.head(c.Run.ID)
		_, err = w.s.Append(w.ctx, at, w.batch("later still"))
		w.wantFenced(err, c.Run.ID, "Append at the head of an ended run")
		_, err = w.s.Finish(w.ctx, at, w.outcome(stint.Completed))
		w.wantFenced(err, c.Run.ID, "Finish at the head of an ended run")
		w.home.checkRun(c.Run.ID)
	}},
	{"an owner of an earlier epoch is fenced at every position", func(w *world) {
		old := w.home.start(retries(5))
		stale := w.append(old.Position, w.batch("one"))
		w.diff("lost", []string{old.Run.ID}, w.lose(old.Run.WorkerID))
		between := stale
		between.After = w.head(old.Run.ID)
		for _, at := range []store.Position{stale, between} {
			_, err := w.s.Append(w.ctx, at, w.batch("zombie"))
			w.wantFenced(err, old.Run.ID, "Append while the run waits again")
		}
		next := w.claimOne(w.worker())
		w.diff("epoch", int64(2), next.Position.Epoch)
		ahead := next.Position
		ahead.Epoch = 1
		for _, at := range []store.Position{stale, between, ahead} {
			_, err := w.s.Append(w.ctx, at, w.batch("zombie"))
			w.wantFenced(err, old.Run.ID, fmt.Sprintf("Append after %d with epoch 1", at.After))
		}
		w.append(next.Position, w.batch("two"))
		w.diff("events", []string{"pending", "running", "output", "pending", "running", "output"}, w.kinds(w.events(old.Run.ID), 1))
		w.home.checkRun(old.Run.ID)
	}},
	{"epoch 0 owns nothing", func(w *world) {
		waits, ended := w.home.create(), w.home.start(priority(9))
		w.finish(ended.Position, w.outcome(stint.Completed))
		again := w.home.start(retries(1), priority(9))
		w.lose(again.Run.WorkerID)
		for _, run := range []string{waits.ID, ended.Run.ID, again.Run.ID} {
			at := store.Position{RunID: run, Epoch: 0, After: w.head(run)}
			_, err := w.s.Append(w.ctx, at, w.batch("without an owner"))
			w.wantFenced(err, run, "Append with epoch 0")
			_, err = w.s.Finish(w.ctx, at, w.outcome(stint.Completed))
			w.wantFenced(err, run, "Finish with epoch 0")
			w.home.checkRun(run)
		}
	}},
	{"a future epoch is fenced", func(w *world) {
		c := w.home.start()
		at := c.Position
		at.Epoch++
		_, err := w.s.Append(w.ctx, at, w.batch("from the future"))
		w.wantFenced(err, c.Run.ID, "Append with a future epoch")
	}},
	{"appends to an unknown run fail", func(w *world) {
		id := w.ids.New(stint.PrefixRun)
		for _, b := range []store.Batch{w.batch("x"), {Token: w.token(), Logs: []stint.LogEntry{w.entry("x")}}} {
			_, err := w.s.Append(w.ctx, store.Position{RunID: id, Epoch: 0, After: 0}, b)
			if _, fenced := errors.AsType[*store.FencedError](err); !fenced && !errors.Is(err, store.ErrNotFound) {
				w.Errorf("Append to an unknown run returned %v, want a *FencedError or ErrNotFound", err)
			}
		}
		w.diff("events", 0, len(w.events(id)))
	}},
	{"concurrent appends at one slot succeed once", func(w *world) {
		c := w.home.start()
		won := make([]bool, 16)
		w.concurrently(len(won), func(i int) error {
			_, err := w.s.Append(w.ctx, c.Position, w.batch(fmt.Sprint(i)))
			won[i] = err == nil
			return ignoreFenced(err)
		})
		w.diff("winners", 1, count(won))
		w.home.checkRun(c.Run.ID)
	}},
	{"concurrent appends to several runs keep the order of each", func(w *world) {
		w.home.createMany(16)
		claims := w.claim(w.worker(), 16)
		w.concurrently(len(claims), func(i int) error {
			at := claims[i].Position
			for k := range 30 {
				b := w.batch(fmt.Sprintf("%d/%d", i, k), "and another")
				head, err := w.s.Append(w.ctx, at, b)
				if err != nil {
					return err
				}
				at.After = head
			}
			return nil
		})
		for i, c := range claims {
			events := w.events(c.Run.ID)
			w.diff("events", 62, len(events))
			for k := range 30 {
				w.diff("content", fmt.Sprintf("%d/%d", i, k), data[stint.OutputData](w, events[2+2*k]).Content)
			}
			w.home.checkRun(c.Run.ID)
		}
	}},
	{"logs without events are stored while the run is running in that epoch", func(w *world) {
		c := w.home.start(retries(5))
		logs := store.Batch{Token: w.token(), Logs: []stint.LogEntry{w.entry("one")}}
		head, err := w.s.Append(w.ctx, c.Position, logs)
		w.must(err, "Append of logs")
		w.diff("head", c.Position.After, head)
		w.lose(c.Run.WorkerID)
		_, err = w.s.Append(w.ctx, c.Position, w.logBatch("while it waits"))
		w.wantFenced(err, c.Run.ID, "Append of logs while the run waits")
		next := w.claimOne(w.worker())
		_, err = w.s.Append(w.ctx, c.Position, w.logBatch("zombie"))
		w.wantFenced(err, c.Run.ID, "Append of logs of a past epoch")
		w.cancel(w.home.org, c.Run.ID)
		_, err = w.s.Append(w.ctx, next.Position, w.logBatch("late"))
		w.wantFenced(err, c.Run.ID, "Append of logs after the end")
		w.diff("entries", []string{"one"}, w.messages(c.Run.ID))
	}},
	{"a fenced batch stores no logs, a retried one stores them once", func(w *world) {
		c := w.home.start()
		b := w.batch("one")
		b.Logs = []stint.LogEntry{w.entry("kept")}
		w.append(c.Position, b)
		w.append(c.Position, b)
		other := w.batch("other")
		other.Logs = []stint.LogEntry{w.entry("dropped")}
		_, err := w.s.Append(w.ctx, c.Position, other)
		w.wantFenced(err, c.Run.ID, "Append at a taken slot")
		w.diff("entries", []string{"kept"}, w.messages(c.Run.ID))
	}},
}

// ignoreFenced returns nil if err is a *FencedError, and err otherwise. In races, a
// *FencedError is the expected error of each call that loses.
func ignoreFenced(err error) error {
	if _, ok := errors.AsType[*store.FencedError](err); ok {
		return nil
	}
	return err
}

// entry returns a system log entry with the current time.
func (w *world) entry(message string) stint.LogEntry {
	return stint.LogEntry{Timestamp: w.now(), Type: stint.LogSystem, Level: "info", Message: message, Metadata: map[string]any{"ms": 1.5}}
}

func (w *world) logBatch(messages ...string) store.Batch {
	b := store.Batch{Token: w.token()}
	for _, m := range messages {
		b.Logs = append(b.Logs, w.entry(m))
	}
	return b
}

// messages returns the messages of a run's log entries, without the run's events.
func (w *world) messages(run string) []string {
	w.Helper()
	sources, err := w.s.LogSources(w.ctx, run, store.LogPosition{}, false, 1000)
	w.must(err, "LogSources")
	var out []string
	for _, e := range sources.Entries {
		out = append(out, e.Message)
	}
	return out
}
