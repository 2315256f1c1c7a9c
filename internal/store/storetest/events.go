package storetest

import (
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/store"
)

var eventCases = []testCase{
	{"a page ends with the batch that reaches the limit", func(w *world) {
		c := w.home.start()
		at := w.append(c.Position, w.batch("3", "4", "5"))
		w.append(at, w.batch("6", "7", "8"))
		for _, ask := range []struct {
			after int64
			limit int
			want  []int64
		}{
			{0, 1, []int64{1}},
			{2, 1, []int64{3, 4, 5}},
			{2, 3, []int64{3, 4, 5}},
			{2, 4, []int64{3, 4, 5, 6, 7, 8}},
			{3, 1, []int64{4, 5}},
			{5, 100, []int64{6, 7, 8}},
			{7, 1, []int64{8}},
			{0, 100, []int64{1, 2, 3, 4, 5, 6, 7, 8}},
			{8, 10, nil},
			{100, 10, nil},
		} {
			events, err := w.s.Events(w.ctx, c.Run.ID, ask.after, ask.limit)
			w.must(err, "Events")
			w.diff(fmt.Sprintf("events after %d, limit %d", ask.after, ask.limit), ask.want, numbers(events))
		}
	}},
	{"a page ends with the batch that reaches MaxReadBytes", func(w *world) {
		c := w.home.start()
		at, after := c.Position, c.Position.After
		const batches, each = 12, 40 << 10
		for i := range batches {
			text := incompressible(int64(i), each/2)
			if i%3 == 2 {
				text = strings.Repeat("x", each/2) // the limit counts uncompressed bytes
			}
			at = w.append(at, w.batch(text, text))
		}
		large := w.batch(incompressible(batches, 2*store.MaxReadBytes))
		at = w.append(at, large)
		w.append(at, w.batch("last"))
		var pages []int
		for {
			events, err := w.s.Events(w.ctx, c.Run.ID, after, 1000)
			w.must(err, "Events")
			if len(events) == 0 {
				break
			}
			size := 0
			for _, e := range events {
				if after++; e.Seq != after {
					w.Fatalf("event %d at place %d", e.Seq, after)
				}
				size += len(e.Data)
			}
			pages = append(pages, len(events))
			if last := len(events[len(events)-1].Data); size-2*last >= store.MaxReadBytes {
				w.Errorf("a page of %d events has %d bytes and includes further batches", len(events), size)
			}
		}
		w.diff("events in pages", []int{8, 8, 8, 1, 1}, pages)
	}},
	{"a reader that continues from the last event misses none", func(w *world) {
		c := w.home.start()
		at := c.Position
		for i := range 40 {
			b := w.batch("a", "b", "c", "d", "e")
			b.Events = b.Events[:1+i%5]
			at = w.append(at, b)
		}
		w.cancel(w.home.org, c.Run.ID)
		want := numbers(w.events(c.Run.ID))
		for _, limit := range []int{1, 2, 3, 7, 1000} {
			var got []int64
			for after := int64(0); ; after = got[len(got)-1] {
				events, err := w.s.Events(w.ctx, c.Run.ID, after, limit)
				w.must(err, "Events")
				if len(events) == 0 {
					break
				}
				got = append(got, numbers(events)...)
			}
			w.diff(fmt.Sprint("walk with limit ", limit), want, got)
		}
		for after := range want {
			events, err := w.s.Events(w.ctx, c.Run.ID, int64(after), 1000)
			w.must(err, "Events")
			w.diff(fmt.Sprint("events after ", after), want[after:], numbers(events))
		}
	}},
	{"concurrent readers receive each event once, in order", func(w *world) {
		c := w.home.start()
		const batches = 60
		w.concurrently(5, func(i int) error {
			if i == 0 {
				at := c.Position
				for k := range batches {
					head, err := w.s.Append(w.ctx, at, w.batch(fmt.Sprint(k), "x"))
					if err != nil {
						return err
					}
					at.After = head
				}
				_, err := w.s.Finish(w.ctx, at, w.outcome(stint.Completed))
				return err
			}
			return w.follow(c.Run.ID, i)
		})
		w.home.checkRun(c.Run.ID)
	}},
	{"Head returns number and status", func(w *world) {
		c := w.home.start()
		w.append(c.Position, w.batch("one", "two"))
		head, status, err := w.s.Head(w.ctx, c.Run.ID)
		w.must(err, "Head")
		w.diff("head", int64(4), head)
		w.diff("status", stint.Running, status)
	}},
}

// incompressible returns a text of about size bytes that does not compress well. Equal seeds
// return equal texts.
func incompressible(seed int64, size int) string {
	raw := make([]byte, size*3/4)
	r := rand.New(rand.NewPCG(uint64(seed), 1))
	for i := range raw {
		raw[i] = byte(r.Uint32())
	}
	return base64.RawStdEncoding.EncodeToString(raw)
}

func numbers(events []stint.Event) []int64 {
	var out []int64
	for _, e := range events {
		out = append(out, e.Seq)
	}
	return out
}

// follow reads the events of a run in pages until the terminal event. It returns an error if
// the positions have a gap or if Head returns a position before the last event read.
func (w *world) follow(run string, limit int) error {
	for after := int64(0); ; {
		events, err := w.s.Events(w.ctx, run, after, limit)
		if err != nil {
			return err
		}
		for _, e := range events {
			if e.Seq != after+1 {
				return fmt.Errorf("event %d follows %d", e.Seq, after)
			}
			after = e.Seq
			if e.Type == stint.EventComplete {
				return nil
			}
		}
		if err := w.headNotBefore(run, after); err != nil {
			return err
		}
	}
}

func (w *world) headNotBefore(run string, seen int64) error {
	head, _, err := w.s.Head(w.ctx, run)
	if err == nil && head < seen {
		err = fmt.Errorf("head is %d after event %d was read", head, seen)
	}
	return err
}

// end is one way in which a running run can end.
type end struct {
	name   string
	status stint.Status
	tail   []string                      // the events that the end appends, in the form of world.kinds
	do     func(w *world, c store.Claim) // ends the run of c
}

// ends lists all ways in which a running run can end.
var ends = []end{
	{"completed", stint.Completed, []string{"completed", "complete"}, func(w *world, c store.Claim) { w.finish(c.Position, w.outcome(stint.Completed)) }},
	{"failed", stint.Failed, []string{"error", "failed", "complete"}, func(w *world, c store.Claim) { w.finish(c.Position, w.outcome(stint.Failed)) }},
	{"timeout", stint.TimedOut, []string{"error", "timeout", "complete"}, func(w *world, c store.Claim) { w.finish(c.Position, w.outcome(stint.TimedOut)) }},
	{"cancelled", stint.Cancelled, []string{"cancelled", "complete"}, func(w *world, c store.Claim) { w.cancel(c.Run.OrgID, c.Run.ID) }},
	{"lost", stint.Failed, []string{"error", "failed", "complete"}, func(w *world, c store.Claim) { w.lose(c.Run.WorkerID) }},
}
