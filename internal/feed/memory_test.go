package feed_test

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/store"
)

// memory is a store in memory for the journal and the log entries of one run.
type memory struct {
	mu        sync.Mutex // guards events and entries
	events    []stint.Event
	entries   []store.NumberedEntry
	reads     int // calls of Events
	size      int // bytes of returned events
	logEvents int // events returned by LogSources
}

// add appends an event to the journal and returns it with its number. As in a store, the
// times in the journal never decrease; the returned event has the given time.
func (m *memory) add(e stint.Event) stint.Event {
	m.mu.Lock()
	defer m.mu.Unlock()
	e.Seq = int64(len(m.events) + 1)
	stored := e
	if n := len(m.events); n > 0 && e.At.Before(m.events[n-1].At.Time) {
		stored.At = m.events[n-1].At
	}
	m.events = append(m.events, stored)
	return e
}

func (m *memory) log(at time.Time, message string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.entries = append(m.entries, store.NumberedEntry{
		Number:   int64(len(m.entries) + 1),
		LogEntry: stint.LogEntry{Timestamp: stint.TimeOf(at), Type: stint.LogSystem, Level: "info", Message: message, Metadata: map[string]any{}},
	})
}

func (m *memory) Append(context.Context, store.Position, store.Batch) (int64, error) {
	return 0, fmt.Errorf("not implemented")
}

func (m *memory) Events(_ context.Context, _ string, after int64, limit int) ([]stint.Event, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reads++
	from := min(int(after), len(m.events))
	to, size := from, 0
	for ; to < min(len(m.events), from+limit) && size < store.MaxReadBytes; to++ {
		size += len(m.events[to].Data)
	}
	m.size += size
	return append([]stint.Event(nil), m.events[from:to]...), nil
}

func (m *memory) Head(context.Context, string) (int64, stint.Status, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return int64(len(m.events)), stint.Running, nil
}

func (m *memory) LogSources(_ context.Context, _ string, from store.LogPosition, desc bool, limit int) (store.LogSources, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out store.LogSources
	defer func() { m.logEvents += len(out.Events) }()
	if !desc {
		for i := int(from.Event); i < len(m.events) && len(out.Events) < limit; i++ {
			out.Events = append(out.Events, m.events[i])
		}
		for i := int(from.Entry); i < len(m.entries) && len(out.Entries) < limit; i++ {
			out.Entries = append(out.Entries, m.entries[i])
		}
		return out, nil
	}
	end := func(position int64, n int) int {
		if position == 0 {
			return n
		}
		return min(int(position)-1, n)
	}
	for i := end(from.Event, len(m.events)) - 1; i >= 0 && len(out.Events) < limit; i-- {
		out.Events = append(out.Events, m.events[i])
	}
	for i := end(from.Entry, len(m.entries)) - 1; i >= 0 && len(out.Entries) < limit; i-- {
		out.Entries = append(out.Entries, m.entries[i])
	}
	return out, nil
}

func (m *memory) LogPositionAt(_ context.Context, _ string, t stint.Time) (store.LogPosition, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var p store.LogPosition
	for _, e := range m.events {
		if e.At.Before(t.Time) {
			p.Event = e.Seq
		}
	}
	for _, e := range m.entries {
		if e.Timestamp.Before(t.Time) {
			p.Entry = e.Number
		}
	}
	return p, nil
}
