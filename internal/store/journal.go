package store

import (
	"context"
	"errors"

	"github.com/stint-dev/stint"
)

// ErrLeaseLost is returned when the worker's lease has ended.
var ErrLeaseLost = errors.New("store: lease lost")

// MaxReadBytes is the number of bytes of event data after which one call of
// Events stops.
const MaxReadBytes = 128 << 10

// Journal stores the events of runs and, beside them, the log entries that are
// not events (the side log).
type Journal interface {
	// Append stores the batch at the slots after at.After and returns the number
	// of its last event, if at.After is the last event, at.Epoch owns the run, and
	// the worker's lease was not ended. If a batch with the same epoch and token
	// already has the slots, the call is a retry and succeeds. Otherwise the error
	// is a *FencedError.
	//
	// If the batch has no events, its logs are stored and Append returns at.After,
	// if the run is running in the epoch at.Epoch and the worker's lease was not
	// ended; otherwise the error is a *FencedError. Under these conditions, such a
	// batch is a retry if its epoch and token equal those of the logs stored last.
	// Several appends may share a commit.
	Append(ctx context.Context, at Position, b Batch) (head int64, err error)
	// Events returns events after the given one, oldest first. It reads whole
	// batches: at least one if there is any, and no further batch once limit or
	// MaxReadBytes is reached. A reader continues from the last Seq until the
	// result is empty.
	Events(ctx context.Context, run string, after int64, limit int) ([]stint.Event, error)
	// Head returns the number of the last event and the run's status. If the run
	// does not exist, it returns 0 and an empty status.
	Head(ctx context.Context, run string) (int64, stint.Status, error)
	// LogSources returns the events and the side log entries beyond a position:
	// those with greater numbers in ascending order or, if desc is set, those
	// with smaller numbers in descending order. Each of the two sequences has at
	// least limit items unless it ends before.
	LogSources(ctx context.Context, run string, from LogPosition, desc bool, limit int) (LogSources, error)
	// LogPositionAt returns the position of the last event and the last log
	// entry that are before t, so that reading forwards begins at t.
	LogPositionAt(ctx context.Context, run string, t stint.Time) (LogPosition, error)
}

// Batch is what a worker appends in one call. Token identifies the batch, so
// that a retry after a lost acknowledgement is recognised. Without a token, no retry
// is recognised. The store sets the Seq of the events.
type Batch struct {
	Token  string
	Events []stint.Event
	Logs   []stint.LogEntry
}

// LogPosition refers to one event and one log entry of a run. Reading forwards begins
// after them, reading backwards before them. For reading backwards, the number 0 means
// the end of the sequence.
type LogPosition struct {
	Event int64 // Seq of an event
	Entry int64 // number of a side log entry
}

// LogSources are the two sequences that are merged into the unified log, each
// in reading order.
type LogSources struct {
	Events  []stint.Event
	Entries []NumberedEntry
}

// NumberedEntry is a log entry with its number (1, 2, 3 …) within the run.
type NumberedEntry struct {
	Number int64
	stint.LogEntry
}
