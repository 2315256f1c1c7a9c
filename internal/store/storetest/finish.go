package storetest

import (
	"encoding/json"
	"fmt"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/store"
)

var finishCases = []testCase{
	{"row, list, head, and journal agree after every end", func(w *world) {
		for _, e := range ends {
			c := w.home.start()
			e.do(w, c)
			r := w.home.checkRun(c.Run.ID)
			w.diff(e.name+": status", e.status, r.Status)
			w.diff(e.name+": tail of the journal", e.tail, w.kinds(w.events(c.Run.ID), 3))
		}
	}},
	{"Finish records the outcome and returns the run", func(w *world) {
		for _, status := range []stint.Status{stint.Completed, stint.Failed, stint.TimedOut} {
			c := w.home.start()
			o := w.outcome(status, func(o *store.Outcome) {
				o.Usage, o.Result = json.RawMessage(`{"inputTokens":12}`), json.RawMessage(`"say \"hi\" \u0000 to ünïcode"`)
			})
			got := w.finish(c.Position, o)
			want := c.Run
			want.Status, want.Sealed, want.CompletedAt, want.ExecutionTimeMs = status, nil, &o.At, &o.ExecutionTimeMs
			want.StatusMessage, want.ExitCode, want.Usage, want.Result = o.Message, o.ExitCode, o.Usage, o.Result
			if status == stint.Failed {
				want.Error = o.Error
			}
			if o.Reason != "" {
				want.StatusReason = &o.Reason
			}
			want.Attempts = []stint.Attempt{{Number: 1, WorkerID: c.Run.WorkerID, StartedAt: *c.Run.StartedAt, EndedAt: &o.At, StatusReason: want.StatusReason}}
			w.diff("returned run", want, got)
			w.diff("stored run", want, w.home.checkRun(c.Run.ID))
		}
	}},
	{"the error event has message and code", func(w *world) {
		c := w.home.start()
		o := w.outcome(stint.Failed)
		w.finish(c.Position, o)
		e := w.events(c.Run.ID)[2]
		w.diff("type", stint.EventError, e.Type)
		w.diff("data", stint.ErrorData{Message: *o.Error, Code: o.ErrorCode}, data[stint.ErrorData](w, e))
	}},
	{"a repeated Finish with the same token succeeds and changes nothing", func(w *world) {
		c := w.home.start()
		o := w.outcome(stint.Completed, w.home.withVersion("out", "pages"), w.home.checkpoint(c.Run))
		first := w.finish(c.Position, o)
		head := w.head(c.Run.ID)
		w.diff("second answer", first, w.finish(c.Position, o))
		w.diff("head", head, w.head(c.Run.ID))
		tree, err := w.s.FileSetByName(w.ctx, w.home.org, stint.Artifacts, "out")
		w.must(err, "FileSetByName")
		list, err := w.s.FileSetVersions(w.ctx, w.home.org, tree.ID, store.Range{Limit: 10})
		w.must(err, "FileSetVersions")
		w.diff("versions", 1, len(list))
	}},
	{"Finish with another token is fenced", func(w *world) {
		c := w.home.start()
		w.finish(c.Position, w.outcome(stint.Completed))
		_, err := w.s.Finish(w.ctx, c.Position, w.outcome(stint.Failed))
		w.wantFenced(err, c.Run.ID, "Finish with another token")
		w.diff("status", stint.Completed, w.home.checkRun(c.Run.ID).Status)
	}},
	{"Finish before or after the head is fenced", func(w *world) {
		c := w.home.start()
		at := w.append(c.Position, w.batch("one"))
		beyond := at
		beyond.After++
		for _, p := range []store.Position{c.Position, beyond} {
			_, err := w.s.Finish(w.ctx, p, w.outcome(stint.Completed))
			w.wantFenced(err, c.Run.ID, fmt.Sprintf("Finish after %d", p.After))
		}
		w.finish(at, w.outcome(stint.Completed))
		w.home.checkRun(c.Run.ID)
	}},
	{"Finish of an earlier epoch is fenced, even at the head", func(w *world) {
		old := w.home.start(retries(5))
		w.lose(old.Run.WorkerID)
		next := w.claimOne(w.worker())
		ahead := next.Position
		ahead.Epoch = old.Position.Epoch
		for _, at := range []store.Position{old.Position, ahead} {
			_, err := w.s.Finish(w.ctx, at, w.outcome(stint.Completed))
			w.wantFenced(err, old.Run.ID, "Finish of epoch 1")
		}
		w.finish(next.Position, w.outcome(stint.Completed))
		w.home.checkRun(old.Run.ID)
	}},
	{"Finish of a pending run is fenced", func(w *world) {
		n := w.home.create()
		_, err := w.s.Finish(w.ctx, store.Position{RunID: n.ID, Epoch: 0, After: 1}, w.outcome(stint.Completed))
		w.wantFenced(err, n.ID, "Finish of a pending run")
		w.home.checkRun(n.ID)
	}},
	{"a fenced Finish stores no version, checkpoint, or log", func(w *world) {
		c := w.home.start()
		w.cancel(w.home.org, c.Run.ID)
		o := w.outcome(stint.Completed, w.home.withVersion("out", "pages"), w.home.checkpoint(c.Run))
		o.Logs = []stint.LogEntry{w.entry("done")}
		_, err := w.s.Finish(w.ctx, c.Position, o)
		w.wantFenced(err, c.Run.ID, "Finish after cancel")
		_, err = w.s.FileSetByName(w.ctx, w.home.org, stint.Artifacts, "out")
		w.wantErr(err, store.ErrNotFound, "FileSetByName")
		_, err = w.s.Checkpoint(w.ctx, w.home.org, o.Checkpoint.ID)
		w.wantErr(err, store.ErrNotFound, "Checkpoint")
		w.diff("entries", []string(nil), w.messages(c.Run.ID))
		w.diff("status", stint.Cancelled, w.home.checkRun(c.Run.ID).Status)
	}},
	{"Finish stores its logs", func(w *world) {
		c := w.home.start()
		w.finish(c.Position, w.outcome(stint.Completed, func(o *store.Outcome) { o.Logs = []stint.LogEntry{w.entry("snapshot"), w.entry("bye")} }))
		w.diff("entries", []string{"snapshot", "bye"}, w.messages(c.Run.ID))
	}},
	{"every end clears the sealed secrets, requeuing keeps them", func(w *world) {
		for _, e := range ends {
			c := w.home.start()
			w.diff(e.name+": sealed while running", []byte("sealed"), w.home.run(c.Run.ID).Sealed)
			e.do(w, c)
			w.diff(e.name+": sealed at the end", []byte(nil), w.home.run(c.Run.ID).Sealed)
		}
		c := w.home.start(retries(1))
		w.lose(c.Run.WorkerID)
		w.diff("sealed while it waits again", []byte("sealed"), w.claimOne(w.worker()).Run.Sealed)
	}},
	{"concurrent finishes succeed once", func(w *world) {
		c := w.home.start()
		won := make([]bool, 12)
		w.concurrently(len(won), func(i int) error {
			status := []stint.Status{stint.Completed, stint.Failed}[i%2]
			_, err := w.s.Finish(w.ctx, c.Position, w.outcome(status))
			won[i] = err == nil
			return ignoreFenced(err)
		})
		w.diff("winners", 1, count(won))
		w.home.checkRun(c.Run.ID)
	}},
	{"a finish sent several times concurrently ends the run once", func(w *world) {
		c := w.home.start()
		o := w.outcome(stint.Failed)
		w.concurrently(12, func(int) error {
			_, err := w.s.Finish(w.ctx, c.Position, o)
			return err
		})
		w.diff("tail", []string{"error", "failed", "complete"}, w.kinds(w.events(c.Run.ID), 3))
		w.home.checkRun(c.Run.ID)
	}},
	{"of concurrent Finish and Append exactly one succeeds", func(w *world) {
		worker := w.worker()
		for range 40 {
			n := w.home.create()
			c := w.claimOne(worker)
			var won [2]bool
			w.concurrently(2, func(i int) (err error) {
				if i == 0 {
					_, err = w.s.Finish(w.ctx, c.Position, w.outcome(stint.Completed))
				} else {
					_, err = w.s.Append(w.ctx, c.Position, w.batch("x"))
				}
				won[i] = err == nil
				return ignoreFenced(err)
			})
			w.diff("winners", 1, count(won[:]))
			r := w.home.checkRun(n.ID)
			w.diff("ended", won[0], r.Status.Final())
			if !won[0] {
				w.cancel(w.home.org, n.ID)
			}
		}
	}},
}
