package store

import (
	"context"
	"encoding/json"
	"time"

	"github.com/stint-dev/stint"
)

// Runs stores runs, sessions, and checkpoints.
type Runs interface {
	// CreateRun stores a pending run with event 1 (status pending). If
	// OpenSession is set, it creates the run's session. Otherwise the run joins
	// its session and becomes ready when every earlier run of the session has
	// ended.
	//
	// The volume versions that the run mounts are not removed until it ends. If
	// it is cancelled while a worker runs it, they are not removed until
	// AddCheckpoint succeeds or the worker stops holding the run. If a mounted
	// version or the session to join does not exist, the error is ErrNotFound.
	//
	// If Answer is set, it is stored under the idempotency key in the same
	// transaction. If another request has taken over the key, the error is
	// ErrKeyInUse and nothing is stored. If claim is not nil, the transaction
	// also claims runs as Claim does, or none if the worker's lease has ended. The
	// claimed runs need not include the new run.
	CreateRun(ctx context.Context, n NewRun, claim *ClaimRequest) ([]Claim, error)
	Run(ctx context.Context, org, id string) (Run, error)
	// RunState returns the status and the epoch of a run of any organisation.
	RunState(ctx context.Context, id string) (stint.Status, int64, error)
	RunSummaries(ctx context.Context, org string, f RunFilter, r Range) ([]stint.RunSummary, error)

	// Claim assigns up to c.Max ready runs to a worker, within the limits of c:
	// each becomes running with the next epoch and a status event. Organisations
	// with the fewest running runs come first; runs of one organisation are
	// ordered by priority, then by age. If no run is ready, the result is empty. If
	// the worker's lease has ended, the error is ErrLeaseLost.
	Claim(ctx context.Context, c ClaimRequest) ([]Claim, error)
	// Finish ends the run of at if the holder of this position still owns the run.
	// It stores the status, the version, and the checkpoint, updates the counters,
	// and makes the session's next run ready. The last batch of the run contains
	// the events error (if o.Error is set), status, and complete. If the holder no
	// longer owns the run, the error is a *FencedError. A retry after a lost
	// acknowledgement succeeds.
	//
	// If the outcome is neither completed nor cancelled and the run's Retries allow
	// another attempt, the attempt ends instead: the run becomes pending again, with
	// a status event, and cannot be claimed before the end of its pause. The
	// checkpoint and the version of the outcome are kept for the next attempt.
	Finish(ctx context.Context, at Position, o Outcome) (Run, error)
	// QueuedRun returns a pending run. If the run is not pending, the error is
	// ErrNotFound.
	QueuedRun(ctx context.Context, org, id string) (QueuedRun, error)
	// QueuedRuns returns at most limit pending runs of an organisation, in the order of
	// Activity. Ahead counts only the returned runs.
	QueuedRuns(ctx context.Context, org string, limit int) ([]QueuedRun, error)
	// QueueState returns the number of running runs of the organisation, and all
	// workers with a valid lease.
	QueueState(ctx context.Context, org string) (QueueState, error)
	// Metadata returns the metadata of a run, which may be nil.
	Metadata(ctx context.Context, org, id string) (map[string]string, error)
	// ChangeMetadata sets the members of change in the metadata of a run, also of an
	// ended one, and returns the run. A nil value removes a member. If more than
	// stint.MaxMetadata members would remain, the error is a *stint.Error.
	ChangeMetadata(ctx context.Context, org, id string, change map[string]*string) (Run, error)
	// Cancel ends a pending or running run as cancelled. If the run has already
	// ended, it returns a *StateError.
	Cancel(ctx context.Context, org, id string, at stint.Time) (Run, error)
	// AddCheckpoint attaches the state that a worker saved for a run that ended
	// without a Finish of the worker (cancelled or reaped): the version, which
	// never moves the artifact's head, and the checkpoint, which becomes the
	// session's newest unless a later run of the session already has a
	// checkpoint.
	//
	// It succeeds only for the run's last epoch, only once, and only if the
	// versions that the run mounted still exist. Otherwise it returns a
	// *FencedError. A call with the checkpoint that is already attached is a
	// retry and succeeds.
	//
	// If the run was taken from the worker and is queued again, the state becomes that
	// of the epoch's attempt; see AttemptState.
	//
	// Besides ChangeMetadata, AddCheckpoint and Reap are the only changes of an ended
	// run: if the worker of a cancelled run saves no state, Reap attaches that of an
	// earlier attempt. They add no event: the complete event of such a run does not have
	// the checkpoint and its version. Readers may rely on this: after the terminal event, the journal
	// is final, and so is every field of the run but Metadata, CheckpointID, ArtifactName,
	// and ArtifactVersion. The last three change at most once, together (without
	// the artifact if v is nil). A reader that needs them must read the run
	// again; following the journal is not enough. For a run that Finish ended,
	// they are final and equal the complete event.
	AddCheckpoint(ctx context.Context, at Position, v *RunVersion, c Checkpoint) (Run, error)
	// EndPauses makes up to n runs claimable whose pause before a retry has ended at
	// the given time, and returns their IDs. next is the end of the earliest pause
	// that it did not end; nil if no other run is paused.
	EndPauses(ctx context.Context, at stint.Time, n int) (ids []string, next *stint.Time, err error)
	// AttemptState returns the state that the newest ended attempt with a state left.
	// If there is none, the error is ErrNotFound. The state becomes the run's
	// checkpoint and version if the run ends without another.
	AttemptState(ctx context.Context, run string) (AttemptState, error)
	// Expire ends up to n pending runs that were created, or queued again, before
	// the given time, as failed with queue_expired, and returns their IDs.
	Expire(ctx context.Context, before, at stint.Time, n int) ([]string, error)

	Session(ctx context.Context, org, id string) (Session, error)
	Sessions(ctx context.Context, org string, r Range) ([]Session, error)
	Checkpoint(ctx context.Context, org, id string) (Checkpoint, error)

	// AddLogs adds entries to the side log of a run, whatever its status. A retry adds
	// them again.
	AddLogs(ctx context.Context, run string, entries []stint.LogEntry) error
	// AddMetrics stores samples of a run. A sample replaces one with the same
	// time. If place is not nil and the run is running in its epoch, it also records
	// where the attempt executes.
	AddMetrics(ctx context.Context, run string, samples []stint.MetricsSample, place *Place) error
	Metrics(ctx context.Context, run string) ([]stint.MetricsSample, error)
	// Activity returns the numbers of running and pending runs of an organisation,
	// and at most limit of the runs: first running ones, oldest first, and then
	// pending ones by priority and age. If more than stint.MaxPendingCount runs are
	// pending, it considers only the oldest ones. Prompts are cut after
	// stint.MaxActivityPrompt characters.
	Activity(ctx context.Context, org string, limit int) (stint.Activity, error)
}

// Run is a stored run with the fields that only the server sees.
type Run struct {
	stint.Run
	OrgID          string
	AgentVersionID string
	Spec           json.RawMessage // the plan, frozen at creation
	Sealed         []byte          // sealed secrets of the request; nil after the run's end
	Priority       int
	Epoch          int64
	WorkerID       string // of the current or last claim
	Timeout        time.Duration
	Retries        *stint.Retries // nil if the run does not start again after a failure
	// AttemptStartedAt is the start of the current or last attempt. It is nil before
	// the first attempt and between two attempts.
	AttemptStartedAt *stint.Time
	SpentMs          int64       // execution time of the earlier attempts
	RetryAt          *stint.Time // the run was queued again and may start at this time; nil once it has started
}

// NewRun is a run to be stored. The caller sets all IDs and CreatedAt; the
// status is pending.
type NewRun struct {
	Run
	OpenSession bool
	// Inherits is the name of the artifact whose version the session determines; see
	// Claim. It is empty if the run does not inherit an artifact from its session.
	Inherits  string
	Placement map[string]string // labels that the run's worker must have
	// Key, Claimed, and Answer store the answer of a request with an
	// Idempotency-Key, as EndRequest does.
	Key     string
	Claimed stint.Time
	Answer  *Answer
}

// RunFilter narrows a list of runs. Zero fields are ignored.
type RunFilter struct {
	Statuses     []stint.Status // any of them; no duplicates
	AgentID      string
	SessionID    string
	Since, Until *stint.Time // of createdAt, inclusive
	Metadata     map[string]string
	CreatedBy    string // in the form of stint.Run
}

// ClaimRequest is a worker's request for runs.
type ClaimRequest struct {
	WorkerID string // registered with Register
	Max      int
	PerOrg   int // limit of running runs per organisation; 0 means none
	PerAgent int // limit of running runs per agent; 0 means none
	At       stint.Time
	Labels   map[string]string // of the worker; runs that require others are not claimed
	Without  []string          // sessions whose runs are not claimed
}

// Claim is a run that a worker now owns at Position.
type Claim struct {
	Run      Run
	Position Position
	// Start is set if the run inherits an artifact from its session. It is the head of
	// the artifact if the head is the session's newest version or descends from it, or if
	// the session has no version. Otherwise it is the session's newest version, and the
	// running event has a note.
	Start *StartVersion
}

// StartVersion is the version from which a run takes its workspace. Both fields are empty
// if the artifact has no head.
type StartVersion struct {
	ID     string
	Digest string
}

// Place describes the sandbox of an attempt and what the run has used in it.
type Place struct {
	Epoch       int64
	Isolation   string
	ImageDigest string          // empty without an image
	Usage       json.RawMessage // of the run so far; nil leaves the stored usage unchanged
}

// Position identifies a run's owner and the end of the journal as the owner knows it:
// the epoch of the owner's claim, and the number of the last stored event.
type Position struct {
	RunID string
	Epoch int64
	After int64
}

// Outcome is the result of a run.
type Outcome struct {
	Token           string // identifies the call of Finish; a retry has the same token
	Status          stint.Status
	Reason          stint.Reason // empty for a plain success
	Message         *string      // statusMessage; nil for a plain success
	Error           *string      // of the error event, and of the run if it failed; nil for no event
	ErrorCode       string       // of the error event; used if Error is set
	ExitCode        *int
	Usage           json.RawMessage // of all attempts; nil leaves that of the earlier attempts
	Result          json.RawMessage // the agent's last message as JSON; nil without one
	At              stint.Time
	ExecutionTimeMs int64 // of this attempt
	Isolation       string
	ImageDigest     string // empty without an image
	Version         *RunVersion
	Checkpoint      *Checkpoint // nil if no checkpoint was taken
	Logs            []stint.LogEntry
}

// RunVersion describes a workspace that becomes a version of the run's artifact. If the
// organisation has no artifact with the name of Artifact, the artifact is created.
//
// The parent of the version is Commit.Parent. If the two have the same digest, no version
// is created, the head does not move, and the run's version is the parent. (If the parent
// was removed meanwhile, a version is created, and the head does not move.) Otherwise the
// version becomes the head if the run completed. If the previous head is then neither the
// parent nor one of the parent's ancestors, it becomes HeadMovedFrom of the run.
type RunVersion struct {
	Artifact FileSet // found by name; ID is used if it must be created
	Commit   Commit
}

// AttemptState is the state that an ended attempt left for the next one. It is stored as
// JSON. Version is nil for a run without an artifact.
type AttemptState struct {
	Checkpoint *Checkpoint `json:"checkpoint"`
	Version    *RunVersion `json:"version,omitempty"`
}

// Session is a stored session.
type Session struct {
	stint.Session
	OrgID string
}

// Checkpoint is a stored checkpoint. HomeDigest and WorkspaceDigest refer to
// snapshots; "" is the empty snapshot. Finish and AddCheckpoint set
// ArtifactVersion to the version that they commit.
type Checkpoint struct {
	stint.Checkpoint
	OrgID           string
	HomeDigest      string
	WorkspaceDigest string
	// Epoch is the earlier of the collection epochs under which the two
	// snapshots were stored. If it is not the current epoch, Finish and
	// AddCheckpoint fail with ErrEpoch. The field itself is not stored.
	Epoch int64
}
