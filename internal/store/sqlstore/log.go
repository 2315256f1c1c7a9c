package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sort"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/store"
)

// LogSources returns events and log entries beyond a position. Both heads are read
// in one statement. Rows up to the heads never change, so the two sequences are
// consistent although they are read one after the other.
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

// clip removes the items of the last batch that are beyond the window, and
// reverses the order if desc is set.
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

// LogPositionAt returns the position before the first event and the first entry
// that are not before t.
func (s *Store) LogPositionAt(ctx context.Context, run string, t stint.Time) (store.LogPosition, error) {
	var p store.LogPosition
	heads, err := s.heads(ctx, run)
	if err == nil {
		p.Event, err = s.lastBefore(ctx, `journal`, run, heads.Event, t)
	}
	if err == nil {
		p.Entry, err = s.lastBefore(ctx, `log_entries`, run, heads.Entry, t)
	}
	return p, s.Wrap("finding a time in a log", err)
}

// lastBefore returns the greatest number in a sequence, up to head, whose time is
// before t. Times never decrease, so it uses binary search over the batches. An
// index on times would make every append slower.
func (s *Store) lastBefore(ctx context.Context, table, run string, head int64, t stint.Time) (int64, error) {
	low, high := int64(0), head // numbers up to low are before t, numbers above high are not
	for low < high {
		seq, last, times, err := s.batchAt(ctx, table, run, low+(high-low+1)/2)
		if err != nil {
			return 0, err
		}
		n := int64(sort.Search(len(times), func(i int) bool { return !times[i].Before(t.Time) }))
		switch {
		case n == int64(len(times)):
			low = last
		case n == 0:
			high = seq - 1
		default:
			return seq + n - 1, nil
		}
	}
	return low, nil
}

// batchAt returns the times of the batch that contains number n.
func (s *Store) batchAt(ctx context.Context, table, run string, n int64) (seq, last int64, times []stint.Time, err error) {
	var floor int64
	var body []byte
	err = queryRow(ctx, s.db.Read, `select seq, last, floor, body from `+table+`
		where run_id = $1 and seq <= $2 order by seq desc limit 1`, run, n).Scan(&seq, &last, &floor, &body)
	if err != nil {
		return 0, 0, nil, err
	}
	if table == `journal` {
		events, err := DecodeEvents(body, seq, floor)
		for _, e := range events {
			times = append(times, e.At)
		}
		return seq, last, times, checkCount(times, seq, last, err)
	}
	entries, err := DecodeEntries(body, floor)
	for _, e := range entries {
		times = append(times, e.Timestamp)
	}
	return seq, last, times, checkCount(times, seq, last, err)
}

// checkCount checks that a batch has as many records as its row has slots.
func checkCount(times []stint.Time, seq, last int64, err error) error {
	if err == nil && int64(len(times)) != last-seq+1 {
		err = errors.Join(errDamaged, fmt.Errorf("%d records in the slots %d to %d", len(times), seq, last))
	}
	return err
}
