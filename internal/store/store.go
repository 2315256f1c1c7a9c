package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stint-dev/stint"
)

// ErrNotFound is returned when the organisation has no such row. Use cases
// convert it to the public error with the requested name.
var ErrNotFound = errors.New("store: not found")

// ErrExists is returned when a unique name is already in use.
var ErrExists = errors.New("store: already exists")

// ErrInUse is returned when another row depends on the row to be removed.
var ErrInUse = errors.New("store: in use")

// ErrUnavailable is returned when the database cannot be reached or cannot
// accept work. The same call may succeed later.
var ErrUnavailable = errors.New("store: database unavailable")

// FencedError is returned when the caller no longer owns the run, because
// another writer took the slot. Its fields are the current state of the run.
type FencedError struct {
	Head   int64
	Status stint.Status
	Epoch  int64
}

// Error returns a message with the state of the run.
func (e *FencedError) Error() string {
	return fmt.Sprintf("store: fenced: run is %s at event %d, epoch %d", e.Status, e.Head, e.Epoch)
}

// StateError is returned when the run's status does not allow the transition.
type StateError struct{ Status stint.Status }

// Error returns a message with the status.
func (e *StateError) Error() string { return "store: run is " + string(e.Status) }

// ConflictError is returned when the head of an artifact or volume is not the
// expected version.
type ConflictError struct{ Head string }

// Error returns a message with the head.
func (e *ConflictError) Error() string { return "store: head is " + e.Head }

// Store is the database port. It is safe for concurrent use. Every method
// returns when ctx ends; a write may or may not have happened then.
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

	// Ping checks that the database answers a read and accepts a write.
	Ping(ctx context.Context) error
	// Now returns the database's clock, the only clock that leases depend on.
	Now(ctx context.Context) (time.Time, error)
	// Close waits for writes in progress and closes the database. It is
	// idempotent.
	Close() error
}

// Cursor is a keyset cursor of a list, which is sorted newest first: items that
// sort after (At, ID). The zero value is the beginning.
type Cursor struct {
	At stint.Time
	ID string
}

// Range requests a page: up to Limit items after After.
type Range struct {
	After Cursor
	Limit int
}
