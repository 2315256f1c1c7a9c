package store

import (
	"context"
	"errors"

	"github.com/stint-dev/stint"
)

// ErrLeaseLost says that the worker's lease has ended.
var ErrLeaseLost = errors.New("store: lease lost")

// MaxReadBytes is how many bytes of data one call of Events gives before it
// leaves further batches to the next.
const MaxReadBytes = 128 << 10

// Journal keeps the events of runs and, beside them, the log entries that are
// no events.
type Journal interface {
	// Append stores the batch at the slots after at.After if they are free,
	// and returns the new head. Slots taken by the same epoch and token are a
	// retry and succeed; taken by anything else they are a *FencedError. A
	// batch without events stores its logs while the run is running in that
	// epoch, else it is fenced too; with the epoch and token of the logs stored
	// last it is a retry and succeeds. Several appends may share a commit.
	Append(ctx context.Context, at Position, b Batch) (head int64, err error)
	// Events reads events after the given one, oldest first: at least one
	// stored batch when there is any, and no further batch once limit or
	// MaxReadBytes of data are reached, so a reader goes on from the last Seq
	// until nothing comes. It reads whole batches and leaves out what the
	// caller already has.
	Events(ctx context.Context, run string, after int64, limit int) ([]stint.Event, error)
	// Head is the last event's number and the run's status; 0 for no run.
	Head(ctx context.Context, run string) (int64, stint.Status, error)
	// LogSources reads what the unified log is merged from, beyond a position:
	// events and entries with greater numbers in ascending order or, with desc,
	// with smaller ones in descending order. Each sequence holds at least limit
	// items unless it ends before.
	LogSources(ctx context.Context, run string, from LogPosition, desc bool, limit int) (LogSources, error)
	// LogPositionAt finds the position before the first event and log entry
	// whose time is not before t.
	LogPositionAt(ctx context.Context, run string, t stint.Time) (LogPosition, error)
}

// Batch is what a worker appends in one step. Token marks it, so that a retry
// after a lost acknowledgement is known as such. Seq of the events is set by
// the store.
type Batch struct {
	Token  string
	Events []stint.Event
	Logs   []stint.LogEntry
}

// LogPosition names one event and one log entry of a run. Reading onwards
// begins after them, reading backwards before them; backwards, 0 means the end.
type LogPosition struct {
	Event int64 // a Seq of the journal
	Entry int64 // a number of the side log
}

// LogSources are the two sequences that the unified log is merged from, each
// in reading order.
type LogSources struct {
	Events  []stint.Event
	Entries []NumberedEntry
}

// NumberedEntry is a log entry with its number, 1, 2, 3 … within the run.
type NumberedEntry struct {
	Number int64
	stint.LogEntry
}
