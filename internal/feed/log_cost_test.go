package feed_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/feed"
	"github.com/stint-dev/stint/internal/notify/inproc"
)

// TestLogPageCost checks that a page of 100 short lines allocates at most 1 MiB if each
// event has 16,384 lines. It reads pages in both directions, from an end of the log and
// from the middle of an event.
func TestLogPageCost(t *testing.T) {
	m := &memory{}
	var content strings.Builder
	for i := range 16 << 10 {
		fmt.Fprintf(&content, "%d\n", i%10)
	}
	for range 101 {
		m.add(outputEvent(epoch, content.String()))
	}
	f := feed.New(m, inproc.New(), false)
	for _, q := range []feed.LogQuery{
		{Limit: 100},
		{Limit: 100, Desc: true},
		{Limit: 100, After: &feed.LogCursor{Event: 50, Line: 9_000}},
		{Limit: 100, Desc: true, After: &feed.LogCursor{Event: 50, Line: 9_000}},
		{Limit: 100, Type: stint.LogAgent},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		page, next, err := f.Logs(t.Context(), "run_x", q)
		runtime.ReadMemStats(&after)
		if err != nil || len(page) != q.Limit || next == nil {
			t.Fatalf("%+v: %d entries, next %v, error %v", q, len(page), next, err)
		}
		if cost := after.TotalAlloc - before.TotalAlloc; cost > 1<<20 {
			t.Errorf("%+v: a page of %d short lines allocated %d KiB", q, q.Limit, cost>>10)
		}
	}
}

// TestLinesOfLongEvent reads the lines of a long event in pages of several sizes, in
// both directions.
func TestLinesOfLongEvent(t *testing.T) {
	t.Parallel()
	m := &memory{}
	var lines []string
	for i := range 57 {
		lines = append(lines, fmt.Sprint("line ", i))
	}
	lines[3], lines[30], lines[56] = "", "\r", "" // the last one is the line break after line 55
	m.add(outputEvent(epoch, strings.Join(lines, "\n")))
	f := feed.New(m, inproc.New(), false)
	for _, desc := range []bool{false, true} {
		for _, limit := range []int{1, 2, 7, 56, 57} {
			q, got := feed.LogQuery{Desc: desc, Limit: limit}, []string{}
			for {
				page, next, err := f.Logs(t.Context(), "run_x", q)
				if err != nil {
					t.Fatal(err)
				}
				for _, e := range page {
					got = append(got, e.Message)
				}
				if q.After = next; next == nil {
					break
				}
			}
			if len(got) != 56 {
				t.Fatalf("desc %v, limit %d: %d lines, want 56", desc, limit, len(got))
			}
			for i, line := range got {
				if desc {
					i = 55 - i
				}
				if want := strings.TrimSuffix(lines[i], "\r"); line != want {
					t.Errorf("desc %v, limit %d: line %d is %q, want %q", desc, limit, i, line, want)
				}
			}
		}
	}
}

// TestOtherTypesReadNoEvents checks that a query for system or network entries, which are
// stored outside the journal, reads no events.
func TestOtherTypesReadNoEvents(t *testing.T) {
	t.Parallel()
	m := &memory{}
	for i := range 300 {
		m.add(outputEvent(epoch.Add(time.Duration(i)*time.Second), "out\n"))
		m.log(epoch.Add(time.Duration(i)*time.Second), fmt.Sprint("sys ", i))
	}
	f := feed.New(m, inproc.New(), false)
	since := stint.TimeOf(epoch.Add(10 * time.Second))
	for _, desc := range []bool{false, true} {
		for _, kind := range []stint.LogType{stint.LogSystem, stint.LogNetwork} {
			q, n := feed.LogQuery{Type: kind, Desc: desc, Since: &since, Limit: 40}, 0
			for {
				page, next, err := f.Logs(t.Context(), "run_x", q)
				if err != nil {
					t.Fatal(err)
				}
				n += len(page)
				if q.After = next; next == nil {
					break
				}
			}
			if want := map[stint.LogType]int{stint.LogSystem: 290}[kind]; n != want {
				t.Errorf("%s, desc %v: %d entries, want %d", kind, desc, n, want)
			}
		}
	}
	if m.logEvents > 0 {
		t.Errorf("%d events were read", m.logEvents)
	}
}
