package store

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/stint-dev/stint"
)

// ErrEpoch is returned when a snapshot was stored under an earlier collection
// epoch. Some of its objects may be about to be deleted, so the caller must
// check them again before the snapshot is referenced.
var ErrEpoch = errors.New("store: a garbage collection has begun since")

// Collections is the database's part of garbage collection.
//
// A collection marks unreferenced objects. It deletes only objects that an earlier
// collection marked and that are still unreferenced. Commits can continue during a
// collection under two rules. A new snapshot must not reuse marked objects. And
// because each collection begins a new epoch, a snapshot that was stored under an
// earlier epoch cannot be referenced (ErrEpoch) until it was checked again.
type Collections interface {
	// Orgs returns the IDs of all organisations.
	Orgs(ctx context.Context) ([]string, error)
	// LeaseCollection acquires or extends the organisation's lease for
	// collections and repairs for the duration d. It reports false if another
	// holder has the lease. A duration of 0 releases the lease.
	LeaseCollection(ctx context.Context, org, holder string, d time.Duration) (bool, error)
	// BeginCollection begins a new epoch and returns it. Once it has returned, no
	// commit under an earlier epoch can succeed, so later calls of LiveDigests
	// include the snapshots of all such commits.
	BeginCollection(ctx context.Context, org string) (epoch int64, err error)
	// LiveDigests returns the digests of all referenced snapshots: those of
	// versions, of checkpoints, of unfinished runs, and of cancelled runs whose
	// worker may still save their state. It omits versions of a deleted artifact
	// or volume that no checkpoint references. Digests may repeat.
	LiveDigests(ctx context.Context, org string) iter.Seq2[string, error]
	// NamedSnapshots returns the snapshots of versions and checkpoints with
	// names for messages. It omits the same versions as LiveDigests.
	NamedSnapshots(ctx context.Context, org string) iter.Seq2[NamedSnapshot, error]
	// MarkedObjects returns the current epoch (0 if no collection has begun)
	// and the marked objects in key order.
	MarkedObjects(ctx context.Context, org string) (epoch int64, list []MarkedObject, err error)
	// MarkObjects marks the keys of unreferenced objects. An object that is
	// already marked keeps its epoch and time.
	MarkObjects(ctx context.Context, org string, epoch int64, keys []string, at stint.Time) error
	// UnmarkObjects removes the marks of objects that are referenced again or
	// were deleted.
	UnmarkObjects(ctx context.Context, org string, keys []string) error
}

// NamedSnapshot is a snapshot with a name for messages.
type NamedSnapshot struct {
	Digest string
	Name   string // such as "volume data@v3_…" or "home of chk_…"
}

// MarkedObject is an unreferenced object of the object storage.
type MarkedObject struct {
	Key   string
	Epoch int64 // of the collection that marked it
	Since time.Time
}

// Retention is the rule by which old versions are removed: versions that are not among
// the newest Last versions of their artifact or volume and were created before Since.
// Heads, versions with a user's keep request, and versions that a checkpoint
// references or a run still mounts are retained. Of a deleted artifact or volume, all
// versions are removed, regardless of Last, Since, head, and keep requests, except those
// that a checkpoint references or a run still mounts.
type Retention struct {
	Last  int        // if 0 and Since is zero, only versions of deleted artifacts and volumes are removed
	Since stint.Time // if zero and Last is not 0, versions are removed at any age
}

// StorageUsage counts what an organisation stores, without deleted artifacts and
// volumes and their versions.
type StorageUsage struct {
	Artifacts, Volumes, Versions, Checkpoints int64
	Bytes                                     int64 // sum of all versions' sizes, without deduplication
}
