package output

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/plainjson"
	"github.com/stint-dev/stint/internal/store"
)

const (
	maxPending   = 1 << 20               // queued bytes above which the agent waits
	maxServer    = 4 << 20               // queued bytes of the server's log entries above which further entries are dropped
	maxBatch     = 256 << 10             // bytes after which an append takes no more events; the same for its log entries
	maxEvents    = 256                   // maximum number of events of one append; the same for its log entries
	maxEvent     = 32 << 10              // maximum bytes of the text of joined events
	partialDelay = 25 * time.Millisecond // time for which an incomplete line waits for its end
	logDelay     = 50 * time.Millisecond // time for which log entries wait for events, to be stored in the same commit

	// overhead is the approximate number of bytes that an event or log entry needs
	// beside its text, so that the limits also apply to many small ones.
	overhead = 512
)

// queue holds the events and log entries that are not appended yet. It is safe for
// concurrent use.
type queue struct {
	now  func() time.Time
	wake chan struct{} // receives a value when there may be a batch; capacity 1

	mu       sync.Mutex // guards the fields below
	room     *sync.Cond // signalled when less is queued, or nothing is accepted any more
	events   []event
	logs     []stint.LogEntry
	logsFrom time.Time // when the first of logs was added
	bytes    int       // size of events and logs
	server   int       // size of the log entries that are not the agent's output
	dropped  int       // number of entries that were dropped because of maxServer
	closed   bool      // no more output is added
	fenced   bool      // the run was lost; everything is dropped
}

// event is output that is not appended yet, with the time at which it was queued.
type event struct {
	stint.OutputData
	at stint.Time
}

func newQueue(now func() time.Time) *queue {
	q := &queue{now: now, wake: make(chan struct{}, 1)}
	q.room = sync.NewCond(&q.mu)
	return q
}

// waitForRoom waits while too much is queued. It reports whether output is
// still accepted.
func (q *queue) waitForRoom() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.bytes > maxPending && !q.closed && !q.fenced {
		q.room.Wait()
	}
	return !q.closed && !q.fenced
}

// addEvents queues events and joins adjacent pieces of the same text.
func (q *queue) addEvents(events []stint.OutputData) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.fenced {
		return
	}
	now := stint.TimeOf(q.now())
	for _, o := range events {
		if o.Content == "" && o.Item == nil {
			continue
		}
		if n := len(q.events); n > 0 && joins(&q.events[n-1].OutputData, &o) {
			q.events[n-1].Content += o.Content
			q.bytes += len(o.Content)
			continue
		}
		q.bytes += eventSize(&o)
		q.events = append(q.events, event{o, now})
	}
	q.signal()
}

// joins reports whether b continues a: both are text of one stream, or pieces
// of one message, and have at most maxEvent bytes together.
func joins(a, b *stint.OutputData) bool {
	if len(a.Content)+len(b.Content) > maxEvent || a.Stream != b.Stream {
		return false
	}
	return a.Item == nil && b.Item == nil || a.Item != nil && a.Item.Delta && sameText(a.Item, b.Item)
}

// addLog queues an entry and never waits. If the queued entries that are not output of
// the agent exceed maxServer, a further one is dropped and counted.
func (q *queue) addLog(e stint.LogEntry) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.fenced {
		return
	}
	if e.Type != stint.LogAgent {
		if q.server > maxServer {
			q.dropped++
			return
		}
		q.server += entrySize(&e)
	}
	if len(q.logs) == 0 {
		q.logsFrom = q.now()
	}
	q.bytes += entrySize(&e)
	q.logs = append(q.logs, e)
	q.signal()
}

func (q *queue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// close ends the output. Waiting writers return.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.room.Broadcast()
	q.signal()
}

// fence drops everything, because the run was lost.
func (q *queue) fence() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.fenced, q.events, q.logs, q.bytes, q.server = true, nil, nil, 0, 0
	q.room.Broadcast()
}

// rest returns the log entries that no append took, and an entry about dropped
// entries if there are any.
func (q *queue) rest() (logs []stint.LogEntry, fenced bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.dropped > 0 {
		q.logs = append(q.logs, stint.LogEntry{
			Timestamp: stint.TimeOf(q.now()), Type: stint.LogSystem, Level: "warn", Metadata: map[string]any{"entries": q.dropped},
			Message: fmt.Sprintf("%d entries were left out of this log, because they came faster than they could be stored.", q.dropped),
		})
		q.dropped = 0
	}
	return q.logs, q.fenced
}

// queueState is the result of next.
type queueState int

const (
	queueReady   queueState = iota // there is a batch
	queueWaiting                   // wait for wake
	queueDone                      // the queue is closed and no batch is left
)

// next removes a batch from the queue. The last log entries of a closed queue, up to
// one batch, stay in the queue, because they are stored with the run's outcome.
func (q *queue) next() (b store.Batch, state queueState) {
	q.mu.Lock()
	defer q.mu.Unlock()
	b.Events = q.takeEvents()
	if len(b.Events) == 0 && q.logsOfBatch() == len(q.logs) {
		if q.closed {
			return b, queueDone
		}
		if len(q.logs) == 0 || q.delaysLogs() {
			return b, queueWaiting
		}
	}
	b.Logs = q.takeLogs()
	q.room.Broadcast()
	return b, queueReady
}

// delays reports whether e, the newest event, waits for the end of its line. If it
// does, delays schedules a wake-up. q.mu is held.
func (q *queue) delays(e *event) bool {
	if q.closed || e.Item != nil && !e.Item.Delta || strings.HasSuffix(e.Content, "\n") || len(e.Content) >= maxEvent/2 {
		return false
	}
	age := q.now().Sub(e.at.Time)
	if age >= partialDelay {
		return false
	}
	time.AfterFunc(partialDelay-age+time.Millisecond, q.signal)
	return true
}

// delaysLogs reports whether log entries wait for events, because a commit of log
// entries alone would delay the agent's first output. If they wait, delaysLogs
// schedules a wake-up. q.mu is held.
func (q *queue) delaysLogs() bool {
	age := q.now().Sub(q.logsFrom)
	if age >= logDelay {
		return false
	}
	time.AfterFunc(logDelay-age+time.Millisecond, q.signal)
	return true
}

// takeEvents removes the events of one append. q.mu is held.
func (q *queue) takeEvents() []stint.Event {
	var taken []stint.Event
	for size := 0; len(taken) < min(len(q.events), maxEvents) && size < maxBatch; {
		e := &q.events[len(taken)]
		if len(taken) == len(q.events)-1 && q.delays(e) {
			break
		}
		size += eventSize(&e.OutputData)
		q.bytes -= eventSize(&e.OutputData)
		taken = append(taken, e.encode())
	}
	q.events = slices.Clone(q.events[len(taken):]) // frees the memory of the removed events
	return taken
}

// takeLogs removes the log entries of one append. q.mu is held.
func (q *queue) takeLogs() []stint.LogEntry {
	n := q.logsOfBatch()
	taken := q.logs[:n]
	for i := range taken {
		size := entrySize(&taken[i])
		q.bytes -= size
		if taken[i].Type != stint.LogAgent {
			q.server -= size
		}
	}
	q.logs = slices.Clone(q.logs[n:])
	return taken
}

// logsOfBatch returns the number of log entries that the next append takes. q.mu is
// held.
func (q *queue) logsOfBatch() (n int) {
	for size := 0; n < min(len(q.logs), maxEvents) && size < maxBatch; n++ {
		size += entrySize(&q.logs[n])
	}
	return n
}

func (e *event) encode() stint.Event {
	data, err := plainjson.Marshal(e.OutputData)
	if err != nil { // cannot happen, because strings and items can be encoded
		data = []byte(`{"content":""}`)
	}
	return stint.Event{Type: stint.EventOutput, At: e.at, Data: data}
}

func eventSize(o *stint.OutputData) int {
	n := overhead + len(o.Content)
	if o.Item == nil {
		return n
	}
	n += len(o.Item.MessageID)
	if t := o.Item.Tool; t != nil {
		n += len(t.ID) + len(t.Name) + len(t.Title) + len(t.Input)
	}
	for _, e := range o.Item.Entries {
		n += len(e.Content) + len(e.Status)
	}
	return n
}

func entrySize(e *stint.LogEntry) int {
	n := overhead + len(e.Message)
	for _, v := range e.Metadata {
		if text, ok := v.(string); ok {
			n += len(text)
		}
	}
	return n
}
