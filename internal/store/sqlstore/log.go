package sqlstore

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"sort"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/store"
)

// LogSources returns events and log entries beyond a position. One statement reads the
// last number of both sequences, and rows up to these numbers never change. Therefore
// the two sequences are consistent although they are read one after the other.
func (s *Store) LogSources(ctx context.Context, run string, from store.LogPosition, desc bool, limit int) (store.LogSources, error) {
	var out store.LogSources
	heads, err := s.heads(ctx, run)
	if err == nil {
		low, high := window(from.Event, heads.Event, desc, limit)
		out.Events, err = s.eventsBetween(ctx, run, low, high, math.MaxInt64)
		out.Events = clip(out.Events, desc, func(e stint.Event) bool { return e.Seq <= high })
	}
	if err == nil {
		low, high := window(from.Entry, heads.Entry, desc, limit)
		out.Entries, err = s.entriesBetween(ctx, run, low, high)
		out.Entries = clip(out.Entries, desc, func(e store.NumberedEntry) bool { return e.Number <= high })
	}
	return out, s.Wrap("reading a log", err)
}

// window returns the range (low, high] of numbers to read from a sequence.
func window(from, head int64, desc bool, limit int) (low, high int64) {
	if !desc {
		return from, min(upTo(from, limit), head)
	}
	high = head
	if from > 0 {
		high = min(from-1, head)
	}
	return max(0, high-int64(max(limit, 1))), high
}

// clip removes the items at the end that are not within the window, and reverses the
// order if desc is set.
func clip[T any](items []T, desc bool, within func(T) bool) []T {
	items = items[:sort.Search(len(items), func(i int) bool { return !within(items[i]) })]
	if desc {
		slices.Reverse(items)
	}
	return items
}

func (s *Store) heads(ctx context.Context, run string) (p store.LogPosition, err error) {
	err = queryRow(ctx, s.db.Read, `select
		coalesce((select last from journal where run_id = $1 order by seq desc limit 1), 0),
		coalesce((select last from log_entries where run_id = $1 order by seq desc limit 1), 0)`, run).Scan(&p.Event, &p.Entry)
	return p, err
}

func (s *Store) entriesBetween(ctx context.Context, run string, after, to int64) ([]store.NumberedEntry, error) {
	var out []store.NumberedEntry
	for row, err := range s.batches(ctx, `log_entries`, run, after, to, math.MaxInt64) {
		if err != nil {
			return out, err
		}
		entries, err := DecodeEntries(row.body, row.floor)
		if err != nil {
			return out, fmt.Errorf("log batch %d of run %s: %w", row.seq, run, err)
		}
		for i, e := range entries {
			if n := row.seq + int64(i); n > after {
				out = append(out, store.NumberedEntry{Number: n, LogEntry: e})
			}
		}
	}
	return out, nil
}

// LogPositionAt returns the position of the last event and the last entry that are
// before t.
func (s *Store) LogPositionAt(ctx context.Context, run string, t stint.Time) (store.LogPosition, error) {
	var p store.LogPosition
	heads, err := s.heads(ctx, run)
	if err == nil {
		p.Event, err = lastBefore(t, heads.Event, func(n int64) (stint.Time, error) {
			events, err := s.eventsBetween(ctx, run, n-1, n, math.MaxInt64)
			if err != nil || len(events) == 0 {
				return stint.Time{}, cmp.Or(err, errDamaged)
			}
			return events[0].At, nil
		})
	}
	if err == nil {
		p.Entry, err = lastBefore(t, heads.Entry, func(n int64) (stint.Time, error) {
			entries, err := s.entriesBetween(ctx, run, n-1, n)
			if err != nil || len(entries) == 0 {
				return stint.Time{}, cmp.Or(err, errDamaged)
			}
			return entries[0].Timestamp, nil
		})
	}
	return p, s.Wrap("finding a time in a log", err)
}

// lastBefore returns the greatest number up to head that has a time before t, or 0 if
// there is none. Times never decrease, so it uses binary search. An index on times
// would make every append slower.
func lastBefore(t stint.Time, head int64, timeOf func(n int64) (stint.Time, error)) (int64, error) {
	low, high := int64(0), head // numbers up to low are before t, numbers above high are not
	for low < high {
		n := low + (high-low+1)/2
		at, err := timeOf(n)
		switch {
		case err != nil:
			return 0, err
		case at.Before(t.Time):
			low = n
		default:
			high = n - 1
		}
	}
	return low, nil
}
