package feed

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/store"
)

// LogQuery asks for a page of a run's unified log.
type LogQuery struct {
	Type         stint.LogType // empty for all
	Since, Until *stint.Time   // inclusive
	Desc         bool
	Limit        int
	After        *LogCursor
}

// LogCursor is the place behind the last entry of a page: the last event that
// was read and how many of its lines, and the last entry of the side log.
type LogCursor struct {
	Event int64 `json:"e"`
	Line  int   `json:"l"`
	Entry int64 `json:"s"`
}

// item is an entry of the unified log with its place in its sequence.
type item struct {
	stint.LogEntry
	event int64 // the journal's Seq; 0 for an entry of the side log
	line  int   // 0, 1, 2 … within the event
	entry int64
}

// Logs reads a page of the unified log: output events, a line each, merged by
// time with the entries that are no events. Of equal times the side log's come
// first, so that the order is total and its reverse is exact.
func (f *Feed) Logs(ctx context.Context, runID string, q LogQuery) ([]stint.LogEntry, *LogCursor, error) {
	w := &walk{feed: f, runID: runID, q: q}
	if err := w.open(ctx); err != nil {
		return nil, nil, err
	}
	page := []stint.LogEntry{}
	for {
		before := w.cursor
		it, ok, err := w.next(ctx)
		if err != nil || !ok {
			return page, nil, err
		}
		if len(page) == q.Limit {
			return page, &before, nil
		}
		page = append(page, it.LogEntry)
	}
}

// walk merges the two sequences in reading order. cursor is the place behind
// what it gave; what it holds beyond is read again where a sequence runs dry.
type walk struct {
	feed   *Feed
	runID  string
	q      LogQuery
	cursor LogCursor

	events, entries       []item
	eventsEnd, entriesEnd bool // the sequence holds no more than what is buffered
}

func (w *walk) open(ctx context.Context) error {
	if w.q.After != nil {
		w.cursor = *w.q.After
		return nil
	}
	edge := w.q.Since
	if w.q.Desc && w.q.Until != nil {
		after := stint.TimeOf(w.q.Until.Add(time.Millisecond))
		edge = &after
	} else if w.q.Desc {
		edge = nil
	}
	if edge == nil {
		return nil
	}
	at, err := w.feed.store.LogPositionAt(ctx, w.runID, *edge)
	if err != nil {
		return fmt.Errorf("find %s in log of %s: %w", edge, w.runID, err)
	}
	w.cursor = LogCursor{Event: at.Event, Entry: at.Entry}
	if w.q.Desc { // backwards, the position is the first that is left out
		w.cursor.Event++
		w.cursor.Entry++
	}
	return nil
}

// next gives the entry that comes next and matches the query.
func (w *walk) next(ctx context.Context) (item, bool, error) {
	for {
		if len(w.events) == 0 && !w.eventsEnd || len(w.entries) == 0 && !w.entriesEnd {
			if err := w.fill(ctx); err != nil {
				return item{}, false, err
			}
		}
		it, ok := w.take()
		if !ok || w.past(it.Timestamp) {
			return item{}, false, nil
		}
		if w.q.Type == "" || it.Type == w.q.Type {
			return it, true, nil
		}
	}
}

// fill reads both sequences from the cursor on: of the events no more lines
// than a page can need, for one event may hold thousands.
func (w *walk) fill(ctx context.Context) error {
	want := w.q.Limit + 1
	src, err := w.feed.store.LogSources(ctx, w.runID, w.from(), w.q.Desc, want)
	if err != nil {
		return fmt.Errorf("read log of %s: %w", w.runID, err)
	}
	w.events, w.entries = nil, nil
	for i := 0; i < len(src.Events) && len(w.events) < want; i++ {
		w.events = append(w.events, w.lines(&src.Events[i], want-len(w.events))...)
	}
	for _, e := range src.Entries {
		w.entries = append(w.entries, item{LogEntry: e.LogEntry, entry: e.Number})
	}
	w.eventsEnd, w.entriesEnd = len(src.Events) < want && len(w.events) < want, len(src.Entries) < want
	if len(w.events) == 0 && !w.eventsEnd { // events without lines only: step over them
		w.cursor.Event, w.cursor.Line = src.Events[len(src.Events)-1].Seq, 0
		return w.fill(ctx)
	}
	return nil
}

// from is where the store reads on. Lines of output are always the agent's, so
// who asks for others is given no events: beyond the last, before the first.
func (w *walk) from() store.LogPosition {
	from := store.LogPosition{Event: w.cursor.Event, Entry: w.cursor.Entry}
	switch {
	case w.q.Type != "" && w.q.Type != stint.LogAgent:
		from.Event = math.MaxInt64
		if w.q.Desc {
			from.Event = 1
		}
	case w.cursor.Line == 0:
	case w.q.Desc: // in the middle of an event: read it again
		from.Event++
	default:
		from.Event--
	}
	return from
}

// lines cuts an output event into entries, in reading order: at most so many,
// without those that the cursor has passed.
func (w *walk) lines(e *stint.Event, most int) []item {
	if e.Type != stint.EventOutput {
		return nil
	}
	var o stint.OutputData
	if json.Unmarshal(e.Data, &o) != nil {
		return nil
	}
	metadata, level := metadataOf(&o), levelOf(&o)
	cut, passed := firstLine, 0
	if w.q.Desc {
		cut = lastLine
	}
	if e.Seq == w.cursor.Event {
		passed = w.cursor.Line
	}
	var out []item
	line, rest, more := "", strings.TrimSuffix(o.Content, "\n"), true
	for n := 0; more && len(out) < most; n++ {
		if line, rest, more = cut(rest); n < passed {
			continue
		}
		out = append(out, item{event: e.Seq, line: n, LogEntry: stint.LogEntry{
			Timestamp: e.At, Type: stint.LogAgent, Level: level, Message: strings.TrimSuffix(line, "\r"), Metadata: metadata,
		}})
	}
	return out
}

// firstLine takes the first line off a text; more tells whether others follow.
func firstLine(text string) (line, rest string, more bool) { return strings.Cut(text, "\n") }

// lastLine takes the last line off a text.
func lastLine(text string) (line, rest string, more bool) {
	i := strings.LastIndexByte(text, '\n')
	return text[i+1:], text[:max(i, 0)], i >= 0
}

// maxInput is the largest input of a tool that log entries repeat, in bytes: it
// stands beside each line of its event.
const maxInput = 2 << 10

// metadataOf tells what is known of an output beyond its text.
func metadataOf(o *stint.OutputData) map[string]any {
	metadata := map[string]any{}
	add := func(to map[string]any, name, value string) {
		if value != "" {
			to[name] = value
		}
	}
	add(metadata, "stream", o.Stream)
	if o.Item == nil {
		return metadata
	}
	add(metadata, "kind", string(o.Item.Kind))
	add(metadata, "messageId", o.Item.MessageID)
	add(metadata, "code", o.Item.Code)
	if t := o.Item.Tool; t != nil {
		tool := map[string]any{}
		add(tool, "id", t.ID)
		add(tool, "name", t.Name)
		add(tool, "title", t.Title)
		add(tool, "category", t.Category)
		add(tool, "status", t.Status)
		if t.ExitCode != nil {
			tool["exitCode"] = *t.ExitCode
		}
		if len(t.Input) > 0 && len(t.Input) <= maxInput {
			tool["input"] = t.Input
		}
		if t.Truncated || len(t.Input) > maxInput {
			tool["truncated"] = true
		}
		metadata["tool"] = tool
	}
	return metadata
}

// levelOf is that of the lines of an output.
func levelOf(o *stint.OutputData) string {
	if o.Item != nil && o.Item.Kind == stint.ItemNotice {
		return "warn"
	}
	return "info"
}

// take removes the entry that comes first and moves the cursor behind it.
func (w *walk) take() (item, bool) {
	switch {
	case len(w.events) == 0 && len(w.entries) == 0:
		return item{}, false
	case len(w.events) == 0 || len(w.entries) > 0 && w.entryFirst():
		it := w.entries[0]
		w.entries, w.cursor.Entry = w.entries[1:], it.entry
		return it, true
	default:
		it := w.events[0]
		w.events, w.cursor.Event, w.cursor.Line = w.events[1:], it.event, it.line+1
		return it, true
	}
}

func (w *walk) entryFirst() bool {
	event, entry := w.events[0].Timestamp, w.entries[0].Timestamp
	if w.q.Desc {
		return entry.After(event.Time)
	}
	return !entry.After(event.Time)
}

// past reports whether the query ends before t.
func (w *walk) past(t stint.Time) bool {
	if w.q.Desc {
		return w.q.Since != nil && t.Before(w.q.Since.Time)
	}
	return w.q.Until != nil && t.After(w.q.Until.Time)
}
