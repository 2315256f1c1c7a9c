package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stint-dev/stint"
)

// ErrNotFound is returned when the organisation has no such row. Callers convert
// it to a public error that contains the requested name.
var ErrNotFound = errors.New("store: not found")

// ErrExists is returned when a unique name or identifier is already in use.
var ErrExists = errors.New("store: already exists")

// ErrInUse is returned when a version cannot be removed; see DeleteVersion. The error is an
// InUseError.
var ErrInUse = errors.New("store: in use")

// Use is a reason for which a version cannot be removed.
type Use string

// The reasons for which a version cannot be removed.
const (
	UseHead       Use = "head"       // it is the head
	UseCheckpoint Use = "checkpoint" // a checkpoint references it
	UseRun        Use = "run"        // a run mounts it
	UseKept       Use = "kept"       // it has a keep request
)

// InUseError is an ErrInUse with the first reason that applies, in the order of the
// constants.
type InUseError struct{ Use Use }

func (e InUseError) Error() string { return ErrInUse.Error() + ": " + string(e.Use) }

// Is reports whether target is ErrInUse.
func (e InUseError) Is(target error) bool { return target == ErrInUse }

// ErrUnavailable is returned when the database cannot be reached or cannot
// accept work. The same call may succeed later.
var ErrUnavailable = errors.New("store: database unavailable")

// FencedError is returned when the caller does not own the run, or another writer
// has written the journal position that the caller expected to be free. Its fields
// are the current state of the run: Head is the last position of the journal. They are
// zero if the run does not exist.
type FencedError struct {
	Head   int64
	Status stint.Status
	Epoch  int64
}

// Error returns a message with status, head, and epoch of the run.
func (e *FencedError) Error() string {
	return fmt.Sprintf("store: fenced: run is %s at event %d, epoch %d", e.Status, e.Head, e.Epoch)
}

// StateError is returned when the run's status does not allow the transition.
type StateError struct{ Status stint.Status }

// Error returns a message with the status.
func (e *StateError) Error() string { return "store: run is " + string(e.Status) }

// ConflictError is returned when the head of an artifact or volume is not the
// expected version. Head is the ID of the current head, or "" if there is none.
type ConflictError struct{ Head string }

// Error returns a message with the head.
func (e *ConflictError) Error() string { return "store: head is " + e.Head }

// Store is the database port. It is safe for concurrent use. If ctx ends, a method
// returns soon with an error; a write may nevertheless have been committed.
type Store interface {
	Access
	Agents
	FileSets
	Collections
	Runs
	Journal
	Workers
	Idempotency
	Keys
	Statistics

	// Ping checks that the database answers a read and accepts a write.
	Ping(ctx context.Context) error
	// Now returns the time of the database's clock, the only clock by which leases
	// expire.
	Now(ctx context.Context) (time.Time, error)
	// Close waits for writes in progress and closes the database. It is
	// idempotent.
	Close() error
}

// Cursor is a page boundary of a list that is sorted newest first: the creation time
// and ID of the last item of a page. The zero value is the beginning of the list.
type Cursor struct {
	At stint.Time
	ID string
}

// Range selects a page of a list: at most Limit items that follow After. If IDPrefix
// is set, the list contains only the items with IDs that begin with it.
type Range struct {
	After    Cursor
	Limit    int
	IDPrefix string
}
