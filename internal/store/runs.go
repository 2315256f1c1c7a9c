package store

import (
	"context"
	"encoding/json"
	"time"

	"github.com/stint-dev/stint"
)

// Runs keeps runs, sessions and checkpoints.
type Runs interface {
	// CreateRun stores a pending run with event 1 (status pending), opening
	// its session when OpenSession is set, else joining the session, where it
	// becomes ready only when every earlier run of the session has ended. The
	// versions of volumes that it mounts stay until it ends or, where it is
	// cancelled while a worker has it, until AddCheckpoint or until that worker
	// lets it go; one that is gone already gives ErrNotFound. With an Answer the idempotency key's answer is
	// stored in the same transaction, which ErrKeyInUse undoes. With a claimer, the runs that Claim would
	// give it are claimed in the same transaction, this one or others.
	CreateRun(ctx context.Context, n NewRun, claimer *ClaimRequest) ([]Claim, error)
	Run(ctx context.Context, org, id string) (Run, error)
	// RunState reads status and epoch without asking whose run it is.
	RunState(ctx context.Context, id string) (stint.Status, int64, error)
	RunSummaries(ctx context.Context, org string, f RunFilter, r Range) ([]stint.RunSummary, error)

	// Claim gives up to c.Max ready runs to a worker: pending → running with
	// the next epoch and a status event. Organisations that run least come
	// first, then priority, then age; limits of c hold. It returns none when
	// there is nothing to do.
	Claim(ctx context.Context, c ClaimRequest) ([]Claim, error)
	// Finish ends a run that the position still owns: status, error event and
	// complete event, version, checkpoint, counters, successor in the session;
	// *FencedError otherwise. A finish whose own result already stands (a lost
	// acknowledgement) succeeds again. The events of an end are error (where
	// there is one), status, complete, in one batch.
	Finish(ctx context.Context, at Position, o Outcome) (Run, error)
	// Cancel ends a pending or running run as cancelled. A run that has ended
	// gives a *StateError.
	Cancel(ctx context.Context, org, id string, at stint.Time) (Run, error)
	// AddCheckpoint attaches what a worker saved of a run that ended by other
	// hands (a cancel): the version, whose commit never moves the head, and the
	// checkpoint, which becomes the session's newest unless a later run of the
	// session has left one. It does so only for the run's last epoch, once, and
	// while the versions are there that the run mounted; otherwise it is a
	// *FencedError. The checkpoint
	// that is already attached is a retry and succeeds. The journal does not
	// change.
	AddCheckpoint(ctx context.Context, at Position, v *RunVersion, c Checkpoint) (Run, error)
	// Expire ends pending runs created before the limit as failed with
	// queue_expired, at most n of them, and returns them.
	Expire(ctx context.Context, before, at stint.Time, n int) ([]string, error)

	Session(ctx context.Context, org, id string) (Session, error)
	Sessions(ctx context.Context, org string, r Range) ([]Session, error)
	Checkpoint(ctx context.Context, org, id string) (Checkpoint, error)

	// AddMetrics stores samples of a run; one of the same time replaces.
	AddMetrics(ctx context.Context, run string, samples []stint.MetricsSample) error
	Metrics(ctx context.Context, run string) ([]stint.MetricsSample, error)
}

// Run is a stored run: what users see and what only the server knows.
type Run struct {
	stint.Run
	OrgID          string
	AgentVersionID string
	Spec           json.RawMessage // frozen at creation
	Sealed         []byte          // request secrets; nil after the end
	Priority       int
	Epoch          int64
	WorkerID       string // of the current or last claim
	Timeout        time.Duration
	MaxRetries     int // how often a run that lost its worker starts again
}

// NewRun is a run to be stored. CreatedAt, ID, SessionID and the rest of the
// run are set by the caller; the status is pending.
type NewRun struct {
	Run
	OpenSession bool
	// Key, Claimed and Answer record the answer of a request with an
	// Idempotency-Key, as EndRequest does.
	Key     string
	Claimed stint.Time
	Answer  *Answer
}

// RunFilter narrows a list; zero members do not.
type RunFilter struct {
	Status       stint.Status
	AgentID      string
	SessionID    string
	Since, Until *stint.Time // of createdAt, inclusive
	Metadata     map[string]string
}

// ClaimRequest is a worker that asks for work.
type ClaimRequest struct {
	WorkerID string // an incarnation that Register made
	Max      int
	PerOrg   int // running runs of one organisation at once; 0 = unlimited
	PerAgent int // running runs of one agent at once; 0 = unlimited
	At       stint.Time
}

// Claim is a run that a worker now owns at Position.
type Claim struct {
	Run      Run
	Position Position
}

// Position is where a run's owner stands: its epoch and the last event that
// it knows to be durable.
type Position struct {
	RunID string
	Epoch int64
	After int64
}

// Outcome is how a run ended.
type Outcome struct {
	Token           string // marks this finish; a retry carries the same
	Status          stint.Status
	Reason          stint.Reason // empty for a plain success
	Error           *string
	ErrorCode       string // of the error event; used when Error is set
	ExitCode        *int
	Usage           json.RawMessage
	Result          json.RawMessage // the agent's last message, as JSON; nil for none
	At              stint.Time
	ExecutionTimeMs int64
	Version         *RunVersion
	Checkpoint      *Checkpoint // nil when none was taken
	Logs            []stint.LogEntry
}

// RunVersion is the state of the workspace that becomes a version of the
// run's artifact. The artifact is created where FileSet names none. The head
// moves only when the run completed.
type RunVersion struct {
	Artifact FileSet // ID to be used if the artifact must be created; found by name otherwise
	Commit   Commit
}

// Session is a stored session.
type Session struct {
	stint.Session
	OrgID string
}

// Checkpoint is a stored checkpoint. HomeDigest and WorkspaceDigest name
// stored trees; empty for an empty one. Of the artifact, ArtifactVersion is
// set by Finish from the version that it committed.
type Checkpoint struct {
	stint.Checkpoint
	OrgID           string
	HomeDigest      string
	WorkspaceDigest string
	// Epoch is the earlier of the epochs of collection under which the two were
	// stored; another than the current one gives ErrEpoch. It is not kept.
	Epoch int64
}

// Workers keeps the leases of workers: one row for each life of a worker.
type Workers interface {
	// Register opens an incarnation whose lease runs until Now + ttl.
	Register(ctx context.Context, w Worker, ttl time.Duration) error
	// Renew extends the lease and compares what the worker holds with what the
	// store believes: the answer names the runs it must stop. Runs that it
	// claimed longer than ttl ago and does not hold, because the answer to the
	// claim was lost, are taken from it and up for the next Reap; so are those that
	// were cancelled, of which it then keeps no state any more. A lease that
	// has ended, or was reaped, gives ErrLeaseLost.
	Renew(ctx context.Context, id string, holds []string, ttl time.Duration) (stop []string, err error)
	// Reap ends the leases that ran out by the database's clock: each run of
	// such a worker ends as failed with worker_lost (error and complete events
	// like Finish), or goes back to pending with a status event while its epoch
	// is not above MaxRetries. At most n runs at once; it returns their
	// identifiers. Cancelled runs of such a worker let go what they mount. A worker
	// row is removed when no run is left to it.
	Reap(ctx context.Context, at stint.Time, n int) ([]string, error)
	// EndWorker ends the lease of a worker at once, so that the next Reap acts
	// on what it still holds. Nothing can be claimed, appended or finished by
	// it after.
	EndWorker(ctx context.Context, id string) error
	// EndWorkersOnHost ends the leases of all earlier incarnations on this host:
	// what a restarted server knows to be dead.
	EndWorkersOnHost(ctx context.Context, host string) error
}

// Worker is one life of a worker process.
type Worker struct {
	ID        string
	Host      string // stable across restarts of one installation
	Capacity  int
	CreatedAt stint.Time
}
