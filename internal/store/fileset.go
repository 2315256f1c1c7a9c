package store

import (
	"context"

	"github.com/stint-dev/stint"
)

// FileSets stores artifacts and volumes (both are file sets) and their
// versions. The head of a file set is its current version.
type FileSets interface {
	CreateFileSet(ctx context.Context, t FileSet) error // ErrExists if the name is in use
	FileSet(ctx context.Context, org string, kind stint.FileSetKind, id string) (FileSet, error)
	FileSetByName(ctx context.Context, org string, kind stint.FileSetKind, name string) (FileSet, error)
	FileSets(ctx context.Context, org string, kind stint.FileSetKind, r Range) ([]FileSet, error)
	// CommitVersion appends a version, whose parent is the head, makes it the head
	// unless c.KeepHead is set, and returns it. If c.IfHead is not nil and differs
	// from the head's ID (empty if there is no head), the error is a
	// *ConflictError. If the head has the same Digest, nothing changes, and
	// CommitVersion returns the head and false.
	CommitVersion(ctx context.Context, c Commit) (head FileSetVersion, added bool, err error)
	// FileSetVersion returns a version by its ID, by its number if id is empty,
	// or the head if both are zero.
	FileSetVersion(ctx context.Context, org, set, id string, number int64) (FileSetVersion, error)
	FileSetVersions(ctx context.Context, org, set string, r Range) ([]FileSetVersion, error)
	// PromoteVersion makes a version the head and returns it. If ifHead is not nil and
	// differs from the head's ID (empty if there is no head), the error is a
	// *ConflictError.
	PromoteVersion(ctx context.Context, org, set, id string, ifHead *string, at stint.Time) (FileSetVersion, error)
	// DeleteFileSet hides the file set and its versions; the name can be used
	// again. Versions that a checkpoint references stay readable by ID. Versions
	// that runs mount are not removed until the runs release them; see CreateRun.
	DeleteFileSet(ctx context.Context, org string, kind stint.FileSetKind, id string, at stint.Time) error
	// DeleteVersion removes a version. The error is an InUseError if the version
	// is the head or has a keep request, or if a checkpoint references it or a
	// run still mounts it.
	DeleteVersion(ctx context.Context, org, set, id string) error
	// KeepVersion sets or clears the request to exclude a version from
	// PruneVersions.
	KeepVersion(ctx context.Context, org, set, id string, keep bool, at stint.Time) error
	// PruneVersions removes, in all organisations, the versions that the rule
	// does not retain, and then deleted file sets without versions. It returns
	// the number of removed versions.
	PruneVersions(ctx context.Context, r Retention) (int64, error)
	// StorageUsage returns what an organisation stores.
	StorageUsage(ctx context.Context, org string) (StorageUsage, error)
}

// FileSet is a stored artifact or volume.
type FileSet struct {
	stint.FileSet
	OrgID string
}

// FileSetVersion is a stored version with the digest of its snapshot.
type FileSetVersion struct {
	stint.FileSetVersion
	FileSetID string
	Number    int64
	Digest    string
}

// Commit is a request for a new version. The store sets the number, which is
// part of the ID v<number>_<Suffix>.
type Commit struct {
	OrgID     string
	FileSetID string
	Suffix    string // 20 characters of lower-case base32
	Digest    string
	Size      int64
	FileCount int64
	Message   string
	CreatedBy string
	CreatedAt stint.Time
	IfHead    *string
	// Epoch is the collection epoch under which the files were stored. If it is
	// not the current epoch, the commit fails with ErrEpoch.
	Epoch    int64
	KeepHead bool // store the version but do not move the head
	// Parent and SessionID are used for the version of a run. Parent is the ID of the
	// version that the run started from, or empty. If the artifact never had this
	// version, the new version has no parent. The store sets SessionID.
	Parent    string
	SessionID string
}
