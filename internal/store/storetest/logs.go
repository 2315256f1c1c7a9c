package storetest

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/store"
)

var logCases = []testCase{
	{"AddLogs adds entries to an ended run and changes nothing else", func(w *world) {
		c := w.home.start()
		first, second := w.entry("first"), w.entry("second")
		w.finish(c.Position, w.outcome(stint.Completed, func(o *store.Outcome) { o.Logs = []stint.LogEntry{first} }))
		before, events := w.home.run(c.Run.ID), w.events(c.Run.ID)
		w.must(w.s.AddLogs(w.ctx, c.Run.ID, []stint.LogEntry{second}), "AddLogs")
		got, err := w.s.LogSources(w.ctx, c.Run.ID, store.LogPosition{}, false, 100)
		w.must(err, "LogSources")
		w.diff("entries", []store.NumberedEntry{{Number: 1, LogEntry: first}, {Number: 2, LogEntry: second}}, got.Entries)
		w.diff("events", events, w.events(c.Run.ID))
		w.diff("run", before, w.home.run(c.Run.ID))
	}},
	{"entries are numbered from 1 and returned unchanged", func(w *world) {
		c := w.home.start()
		var want []store.NumberedEntry
		add := func(entries ...stint.LogEntry) []stint.LogEntry {
			for _, e := range entries {
				want = append(want, store.NumberedEntry{Number: int64(len(want) + 1), LogEntry: e})
			}
			return entries
		}
		one, odd := w.entry("one"), w.entry("odd \x00 \u2028 日本")
		odd.Type, odd.Level, odd.Metadata = stint.LogNetwork, "warn", map[string]any{"host": "example.org", "port": 443.0, "tags": []any{"a", nil}}
		at := w.append(c.Position, store.Batch{Token: w.token(), Events: []stint.Event{w.output("x")}, Logs: add(one, odd)})
		_, err := w.s.Append(w.ctx, at, store.Batch{Token: w.token(), Logs: add(w.entry("three"))})
		w.must(err, "Append of logs")
		bare := w.entry("four")
		bare.Metadata = nil
		w.finish(at, w.outcome(stint.Completed, func(o *store.Outcome) { o.Logs = add(bare) }))
		got, err := w.s.LogSources(w.ctx, c.Run.ID, store.LogPosition{}, false, 100)
		w.must(err, "LogSources")
		w.diff("entries", want, got.Entries)
		w.diff("events", w.events(c.Run.ID), got.Events)
	}},
	{"times of entries are truncated to milliseconds", func(w *world) {
		c := w.home.start()
		e := w.entry("x")
		exact := e.Timestamp
		e.Timestamp = stint.Time{Time: exact.Add(999 * time.Microsecond)}
		_, err := w.s.Append(w.ctx, c.Position, store.Batch{Token: w.token(), Logs: []stint.LogEntry{e}})
		w.must(err, "Append")
		got, err := w.s.LogSources(w.ctx, c.Run.ID, store.LogPosition{}, false, 10)
		w.must(err, "LogSources")
		w.diff("time", exact, got.Entries[0].Timestamp)
	}},
	{"desc is the exact reverse of asc, even with equal times", func(w *world) {
		run := w.home.mixedLog()
		whole := w.readLog(run, false, 1000)
		w.diff("events", int64(len(w.events(run))), int64(len(whole.Events)))
		for _, limit := range []int{1, 2, 3, 5, 1000} {
			w.diff(fmt.Sprint("asc by ", limit), whole, w.readLog(run, false, limit))
			back := w.readLog(run, true, limit)
			slices.Reverse(back.Events)
			slices.Reverse(back.Entries)
			w.diff(fmt.Sprint("desc by ", limit), whole, back)
		}
	}},
	{"reading continues from any position in both directions", func(w *world) {
		run := w.home.mixedLog()
		whole := w.readLog(run, false, 1000)
		for event := int64(1); event <= int64(len(whole.Events)); event++ {
			for _, entry := range []int64{1, 4, int64(len(whole.Entries))} {
				from := store.LogPosition{Event: event, Entry: entry}
				up, err := w.s.LogSources(w.ctx, run, from, false, 1000)
				w.must(err, "LogSources")
				w.diff("upwards", store.LogSources{Events: whole.Events[event:], Entries: whole.Entries[entry:]}, up)
				down, err := w.s.LogSources(w.ctx, run, from, true, 1000)
				w.must(err, "LogSources")
				slices.Reverse(down.Events)
				slices.Reverse(down.Entries)
				w.diff("downwards", store.LogSources{Events: whole.Events[:event-1], Entries: whole.Entries[:entry-1]}, down)
			}
		}
	}},
	{"equal tokens of log entries in different epochs differ", func(w *world) {
		for _, events := range []int{0, 1} {
			c := w.home.start(retries(1))
			b := w.batch("x")
			b.Token, b.Events, b.Logs = "1", b.Events[:events], w.logBatch("first life").Logs
			w.append(c.Position, b)
			w.lose(c.Run.WorkerID)
			next := w.claimOne(w.worker())
			want := []string{"first life"}
			for _, token := range []string{"1", "2"} {
				want = append(want, token)
				again := store.Batch{Token: token, Logs: w.logBatch(token).Logs}
				for range 2 { // the second append is a retry
					w.append(next.Position, again)
				}
			}
			got, err := w.s.LogSources(w.ctx, c.Run.ID, store.LogPosition{}, false, 10)
			w.must(err, "LogSources")
			var messages []string
			for _, e := range got.Entries {
				messages = append(messages, e.Message)
			}
			w.diff(fmt.Sprint("entries after a batch of ", events, " events"), want, messages)
		}
	}},
	{"there is nothing after the last and before the first", func(w *world) {
		run := w.home.mixedLog()
		whole := w.readLog(run, false, 1000)
		got, err := w.s.LogSources(w.ctx, run, store.LogPosition{Event: math.MaxInt64}, false, 1000)
		w.must(err, "LogSources upwards")
		w.diff("upwards", store.LogSources{Entries: whole.Entries}, got)
		got, err = w.s.LogSources(w.ctx, run, store.LogPosition{Event: 1}, true, 1000)
		w.must(err, "LogSources downwards")
		slices.Reverse(got.Entries)
		w.diff("downwards", store.LogSources{Entries: whole.Entries}, got)
	}},
	{"LogPositionAt is before the first item that is not before the time", func(w *world) {
		c := w.home.start()
		base := later(w.now(), time.Hour)
		ms := func(n int) stint.Time { return later(base, time.Duration(n)*time.Millisecond) }
		b := w.batch("a", "b", "c", "d")
		for i, at := range []int{10, 20, 20, 30} {
			b.Events[i].At = ms(at)
		}
		b.Logs = w.logBatch("1", "2", "3").Logs
		for i, at := range []int{15, 20, 40} {
			b.Logs[i].Timestamp = ms(at)
		}
		w.append(c.Position, b)
		for _, ask := range []struct {
			at   int
			want store.LogPosition
		}{
			{-7_200_000, store.LogPosition{}},
			{10, store.LogPosition{Event: 2}},
			{11, store.LogPosition{Event: 3}},
			{15, store.LogPosition{Event: 3}},
			{16, store.LogPosition{Event: 3, Entry: 1}},
			{20, store.LogPosition{Event: 3, Entry: 1}},
			{21, store.LogPosition{Event: 5, Entry: 2}},
			{30, store.LogPosition{Event: 5, Entry: 2}},
			{40, store.LogPosition{Event: 6, Entry: 2}},
			{41, store.LogPosition{Event: 6, Entry: 3}},
		} {
			got, err := w.s.LogPositionAt(w.ctx, c.Run.ID, ms(ask.at))
			w.must(err, "LogPositionAt")
			w.diff(fmt.Sprintf("position at %d ms", ask.at), ask.want, got)
		}
	}},
	{"LogPositionAt is correct if given times decrease", func(w *world) {
		c := w.home.start()
		base := later(w.now(), time.Hour)
		b := w.logBatch("1", "2", "3")
		for i, ms := range []int{10, 5, 20} {
			b.Logs[i].Timestamp = later(base, time.Duration(ms)*time.Millisecond)
		}
		_, err := w.s.Append(w.ctx, c.Position, b)
		w.must(err, "Append")
		for ms, want := range map[int]int64{1: 0, 8: 0, 10: 0, 11: 2, 20: 2, 21: 3} {
			got, err := w.s.LogPositionAt(w.ctx, c.Run.ID, later(base, time.Duration(ms)*time.Millisecond))
			w.must(err, "LogPositionAt")
			w.diff(fmt.Sprintf("entry at %d ms", ms), want, got.Entry)
		}
	}},
	{"LogPositionAt and LogSources omit nothing of that time", func(w *world) {
		run := w.home.mixedLog()
		whole := w.readLog(run, false, 1000)
		for _, e := range whole.Events {
			from, err := w.s.LogPositionAt(w.ctx, run, e.At)
			w.must(err, "LogPositionAt")
			got, err := w.s.LogSources(w.ctx, run, from, false, 1000)
			w.must(err, "LogSources")
			i := slices.IndexFunc(whole.Events, func(x stint.Event) bool { return !x.At.Before(e.At.Time) })
			w.diff("events since "+e.At.String(), whole.Events[i:], got.Events)
		}
	}},
	{"concurrent entries are numbered without gaps", func(w *world) {
		c := w.home.start()
		w.concurrently(10, func(i int) error {
			for k := range 10 {
				if _, err := w.s.Append(w.ctx, c.Position, w.logBatch(fmt.Sprintf("%d/%d", i, k), "and")); err != nil {
					return err
				}
			}
			return nil
		})
		got, err := w.s.LogSources(w.ctx, c.Run.ID, store.LogPosition{}, false, 1000)
		w.must(err, "LogSources")
		w.diff("entries", 200, len(got.Entries))
		for i, e := range got.Entries {
			w.diff("number", int64(i+1), e.Number)
		}
	}},
}

// mixedLog creates a run, appends events and log entries in batches of different sizes and
// with many equal times, and finishes the run. It returns the run's ID.
func (o *tenant) mixedLog() string {
	w := o.w
	w.Helper()
	c := o.start()
	at, now := c.Position, w.now()
	for i := range 6 {
		b := w.batch("a", "b", "c")
		b.Events = b.Events[:1+i%3]
		b.Logs = w.logBatch("x", "y").Logs
		if i%2 == 0 {
			now = w.now()
		}
		for k := range b.Events {
			b.Events[k].At = now
		}
		for k := range b.Logs {
			b.Logs[k].Timestamp = now
		}
		at = w.append(at, b)
	}
	w.finish(at, w.outcome(stint.Failed, func(o *store.Outcome) { o.At = now }))
	return c.Run.ID
}

// readLog reads all events and log entries of a run in pages and returns them. It checks the
// size of each page by pageFull.
func (w *world) readLog(run string, desc bool, limit int) store.LogSources {
	w.Helper()
	var all store.LogSources
	for from := (store.LogPosition{}); ; {
		page, err := w.s.LogSources(w.ctx, run, from, desc, limit)
		w.must(err, "LogSources")
		if len(page.Events) == 0 && len(page.Entries) == 0 {
			return all
		}
		if n := len(page.Events); n > 0 {
			from.Event = page.Events[n-1].Seq
		}
		if n := len(page.Entries); n > 0 {
			from.Entry = page.Entries[n-1].Number
		}
		all.Events = append(all.Events, page.Events...)
		all.Entries = append(all.Entries, page.Entries...)
		w.pageFull(run, page, from, desc, limit)
	}
}

// pageFull checks a page that was read with the given limit: if the page has fewer than limit
// events, no events follow the page; if it has fewer than limit entries, no entries follow.
// end is the position of the page's last event and last entry.
func (w *world) pageFull(run string, page store.LogSources, end store.LogPosition, desc bool, limit int) {
	w.Helper()
	if len(page.Events) >= limit && len(page.Entries) >= limit {
		return
	}
	next, err := w.s.LogSources(w.ctx, run, end, desc, limit)
	w.must(err, "LogSources")
	if len(page.Events) < limit && len(next.Events) > 0 {
		w.Errorf("%d events were read with limit %d although more follow", len(page.Events), limit)
	}
	if len(page.Entries) < limit && len(next.Entries) > 0 {
		w.Errorf("%d entries were read with limit %d although more follow", len(page.Entries), limit)
	}
}
