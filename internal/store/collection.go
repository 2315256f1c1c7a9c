package store

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/stint-dev/stint"
)

// ErrEpoch says that a tree of files was stored under an epoch of collection
// that is over, so that some of it may be about to be deleted: it must be
// looked at again before something names it.
var ErrEpoch = errors.New("store: a collection began meanwhile")

// Collections is the database's part in deleting files that nothing names.
//
// A collection has two steps, so that it can go on beside commits. It begins a
// new epoch, after which a tree that was stored under an earlier one cannot be
// named (ErrEpoch) without being looked at again. Objects that nothing names
// are condemned; only the next collection deletes them, and only if nothing
// came to name them in between. Who stores a tree builds upon nothing
// condemned.
type Collections interface {
	// Orgs lists the identifiers of all organisations.
	Orgs(ctx context.Context) ([]string, error)
	// LeaseCollection gives the holder the organisation's storage to itself, as
	// far as collections and repairs go, for the time d, or extends that; false
	// when another has it. d of 0 gives it back.
	LeaseCollection(ctx context.Context, org, holder string, d time.Duration) (bool, error)
	// BeginCollection begins a new epoch and returns it. What Live gives
	// afterwards is complete but for trees named under the new epoch.
	BeginCollection(ctx context.Context, org string) (epoch int64, err error)
	// Live gives the digests of the trees that something names: versions,
	// checkpoints and runs that have not ended, or were cancelled and still mount
	// what they did. It may repeat some.
	LiveDigests(ctx context.Context, org string) iter.Seq2[string, error]
	// Named gives what Live gives but for runs, with what their users call them.
	NamedSnapshots(ctx context.Context, org string) iter.Seq2[NamedSnapshot, error]
	// Condemned reads the epoch and what is condemned, in order of the keys.
	MarkedObjects(ctx context.Context, org string) (epoch int64, list []MarkedObject, err error)
	// Condemn notes keys of the storage that nothing names. One that is
	// condemned already stays as it is.
	MarkObjects(ctx context.Context, org string, epoch int64, keys []string, at stint.Time) error
	// Pardon forgets keys: they are named again, or are no more.
	UnmarkObjects(ctx context.Context, org string, keys []string) error
}

// Named is a tree of files and what its user calls it.
type NamedSnapshot struct {
	Digest string
	Name   string // such as "volume data@v3_…" or "home of chk_…"
}

// Condemned is an object of the storage that nothing names.
type MarkedObject struct {
	Key   string
	Epoch int64 // of the collection that found it
	Since time.Time
}

// Retention says which versions of a tree go by themselves: those that are
// neither among the newest Last nor younger than Since. The head stays, and
// what a checkpoint names, a run mounts that has not ended, or somebody asked to
// keep. Versions of a deleted tree go at once but for those that a checkpoint
// names or a run mounts.
type Retention struct {
	Last  int // 0 with Since zero keeps all versions of trees that exist
	Since stint.Time
}

// StorageUsage is what an organisation keeps.
type StorageUsage struct {
	Artifacts, Volumes, Versions, Checkpoints int64
	Bytes                                     int64 // sizes of all versions' files together, each counted in full
}
