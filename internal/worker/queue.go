package worker

import (
	"encoding/json"
	"slices"

	"github.com/stint-dev/stint"
)

// unitSize is about what an event or an entry of the log costs beside its text,
// in bytes: many small ones are much, too.
const unitSize = 512

func eventSize(o *stint.OutputData) int {
	n := unitSize + len(o.Content)
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
	n := unitSize + len(e.Message)
	for _, v := range e.Metadata {
		if text, ok := v.(string); ok {
			n += len(text)
		}
	}
	return n
}

// takeEvents takes the events of one append off the queue. r.mu is held.
func (r *recorder) takeEvents() []stint.Event {
	var taken []stint.Event
	for size := 0; len(taken) < min(len(r.pending), maxEvents) && size < maxBatch; {
		p := &r.pending[len(taken)]
		if len(taken) == len(r.pending)-1 && r.holds(p) {
			break
		}
		size += eventSize(&p.OutputData)
		r.bytes -= eventSize(&p.OutputData)
		taken = append(taken, output(*p))
	}
	r.pending = slices.Clone(r.pending[len(taken):]) // what was taken is not kept
	return taken
}

// takeLogs takes the entries of one append off the queue. r.mu is held.
func (r *recorder) takeLogs() []stint.LogEntry {
	n := r.logsOfBatch()
	taken := r.logs[:n]
	for i := range taken {
		size := entrySize(&taken[i])
		r.bytes -= size
		if taken[i].Type != stint.LogAgent {
			r.aside -= size
		}
	}
	r.logs = slices.Clone(r.logs[n:])
	return taken
}

// logsOfBatch counts the log entries that one append takes. r.mu is held.
func (r *recorder) logsOfBatch() (n int) {
	for size := 0; n < min(len(r.logs), maxEvents) && size < maxBatch; n++ {
		size += entrySize(&r.logs[n])
	}
	return n
}

func output(p piece) stint.Event {
	data, err := json.Marshal(p.OutputData)
	if err != nil { // strings and plain items marshal
		data = []byte(`{"content":""}`)
	}
	return stint.Event{Type: stint.EventOutput, At: p.at, Data: data}
}
