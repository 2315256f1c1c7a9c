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
	Desc         bool          // newest first
	Limit        int           // maximum number of entries
	After        *LogCursor    // end of the previous page; nil for the first page
	Follow       bool          // return a cursor at the end of the log too, for later entries; needs !Desc and no Until
}

// LogCursor is the position after the last entry of a page. The side log consists
// of the log entries that are not events.
type LogCursor struct {
	Event int64 `json:"e"` // Seq of the last event that was read
	Line  int   `json:"l"` // number of its lines that were read
	Entry int64 `json:"s"` // number of the last side log entry that was read
}

// logItem is an entry of the unified log with its position in the journal or in the
// side log.
type logItem struct {
	stint.LogEntry
	event int64 // the journal's Seq; 0 for an entry of the side log
	line  int   // 0, 1, 2 … within the event, in reading order
	entry int64 // number of the side log entry; 0 for a line of an event
}

// Logs returns a page of the unified log and the cursor of the next page, which is
// nil at the end of the log unless q.Follow is set. The log has an entry for each line of output events,
// merged by time with the entries of the side log. If times are equal, the entries
// of the side log come first. So the order is total, and Desc reverses it exactly.
func (f *Feed) Logs(ctx context.Context, runID string, q LogQuery) ([]stint.LogEntry, *LogCursor, error) {
	w := &logReader{feed: f, runID: runID, q: q}
	if err := w.open(ctx); err != nil {
		return nil, nil, err
	}
	page := []stint.LogEntry{}
	for {
		before := w.cursor
		it, ok, err := w.next(ctx)
		if err == nil && !ok && q.Follow {
			return page, &w.cursor, nil
		}
		if err != nil || !ok {
			return page, nil, err
		}
		if len(page) == q.Limit {
			return page, &before, nil
		}
		page = append(page, it.LogEntry)
	}
}

// logReader merges the lines of output events and the side log in reading order.
// cursor is the position after the last returned item. The buffers events and
// entries hold items after the cursor. If one of them is empty and its sequence
// continues, both are read again.
type logReader struct {
	feed   *Feed
	runID  string
	q      LogQuery
	cursor LogCursor

	events, entries       []logItem
	eventsEnd, entriesEnd bool // the buffer holds the rest of the sequence
}

func (w *logReader) open(ctx context.Context) error {
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
	if w.q.Desc { // reading backwards excludes the cursor's own event and entry
		w.cursor.Event++
		w.cursor.Entry++
	}
	return nil
}

// next returns the next item that matches the query, or false at the end.
func (w *logReader) next(ctx context.Context) (logItem, bool, error) {
	for {
		if len(w.events) == 0 && !w.eventsEnd || len(w.entries) == 0 && !w.entriesEnd {
			if err := w.fill(ctx); err != nil {
				return logItem{}, false, err
			}
		}
		it, ok := w.take()
		if !ok || w.past(it.Timestamp) {
			return logItem{}, false, nil
		}
		if w.q.Type == "" || it.Type == w.q.Type {
			return it, true, nil
		}
	}
}

// fill reads both sequences again from the cursor. It splits events into no more
// lines than a page needs, because one event may have thousands of lines.
func (w *logReader) fill(ctx context.Context) error {
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
		w.entries = append(w.entries, logItem{LogEntry: e.LogEntry, entry: e.Number})
	}
	w.eventsEnd, w.entriesEnd = len(src.Events) < want && len(w.events) < want, len(src.Entries) < want
	if len(w.events) == 0 && !w.eventsEnd { // the events have no lines: continue after them
		w.cursor.Event, w.cursor.Line = src.Events[len(src.Events)-1].Seq, 0
		return w.fill(ctx)
	}
	return nil
}

// from returns the position from which the store must read. The lines of output
// events have the type LogAgent, so a query for another type starts beyond all
// events.
func (w *logReader) from() store.LogPosition {
	from := store.LogPosition{Event: w.cursor.Event, Entry: w.cursor.Entry}
	switch {
	case w.q.Type != "" && w.q.Type != stint.LogAgent:
		from.Event = math.MaxInt64
		if w.q.Desc {
			from.Event = 1
		}
	case w.cursor.Line == 0:
	case w.q.Desc: // the cursor is within an event, which must be read again
		from.Event++
	default:
		from.Event--
	}
	return from
}

// lines splits an output event into at most limit items in reading order, without
// the lines before the cursor. It returns nil for other events.
func (w *logReader) lines(e *stint.Event, limit int) []logItem {
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
	var out []logItem
	line, rest, more := "", strings.TrimSuffix(o.Content, "\n"), true
	for n := 0; more && len(out) < limit; n++ {
		if line, rest, more = cut(rest); n < passed {
			continue
		}
		out = append(out, logItem{event: e.Seq, line: n, LogEntry: stint.LogEntry{
			Timestamp: e.At, Type: stint.LogAgent, Level: level, Message: strings.TrimSuffix(line, "\r"), Metadata: metadata,
		}})
	}
	return out
}

// firstLine splits off the first line of a text. more reports whether the text has
// further lines.
func firstLine(text string) (line, rest string, more bool) { return strings.Cut(text, "\n") }

// lastLine splits off the last line of a text. more reports whether the text has
// further lines.
func lastLine(text string) (line, rest string, more bool) {
	i := strings.LastIndexByte(text, '\n')
	return text[i+1:], text[:max(i, 0)], i >= 0
}

// maxInput is the maximum size in bytes of a tool's input in log entries. It is
// small because every line of the event repeats the input.
const maxInput = 2 << 10

// metadataOf returns the metadata of an output's log entries.
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

// levelOf returns the level of an output's log entries.
func levelOf(o *stint.OutputData) string {
	if o.Item != nil && o.Item.Kind == stint.ItemNotice {
		return "warn"
	}
	return "info"
}

// take removes the buffered item that is next in reading order and moves the cursor
// after it. It returns false if both buffers are empty.
func (w *logReader) take() (logItem, bool) {
	switch {
	case len(w.events) == 0 && len(w.entries) == 0:
		return logItem{}, false
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

func (w *logReader) entryFirst() bool {
	event, entry := w.events[0].Timestamp, w.entries[0].Timestamp
	if w.q.Desc {
		return entry.After(event.Time)
	}
	return !entry.After(event.Time)
}

// past reports whether t is beyond the time range of the query.
func (w *logReader) past(t stint.Time) bool {
	if w.q.Desc {
		return w.q.Since != nil && t.Before(w.q.Since.Time)
	}
	return w.q.Until != nil && t.After(w.q.Until.Time)
}
