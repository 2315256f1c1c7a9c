package stint

// FileSetKind distinguishes artifacts, which agents produce, from volumes, which
// are their inputs.
type FileSetKind string

// The kinds of file sets.
const (
	Artifacts FileSetKind = "artifact"
	Volumes   FileSetKind = "volume"
)

// Prefix returns the prefix of the identifiers of file sets of kind k.
func (k FileSetKind) Prefix() string {
	if k == Artifacts {
		return PrefixArtifact
	}
	return PrefixVolume
}

// FileSet is an artifact or a volume: a named set of files with versions.
// CurrentVersionID is nil until a version becomes the current one.
type FileSet struct {
	ID               string      `json:"id"`
	Name             string      `json:"name"`
	CurrentVersionID *string     `json:"currentVersionId"`
	Size             int64       `json:"size"`
	FileCount        int64       `json:"fileCount"`
	CreatedAt        Time        `json:"createdAt"`
	UpdatedAt        Time        `json:"updatedAt"`
	Kind             FileSetKind `json:"-"`
}

// FileSetDetail is a FileSet with its current version.
type FileSetDetail struct {
	FileSet
	CurrentVersion *FileSetVersion `json:"currentVersion"`
}

// FileSetVersion is an immutable version of a FileSet. Either ArtifactID or
// VolumeID is set.
type FileSetVersion struct {
	ID         string `json:"id"`
	ArtifactID string `json:"artifactId,omitempty"`
	VolumeID   string `json:"volumeId,omitempty"`
	Size       int64  `json:"size"`
	FileCount  int64  `json:"fileCount"`
	Message    string `json:"message"`
	CreatedBy  string `json:"createdBy"`
	CreatedAt  Time   `json:"createdAt"`
	Kept       bool   `json:"kept,omitempty"` // retention does not delete this version
	// ParentVersionID is the version that this version was made from: the version that
	// the run started from, or the version that was current before a push. It is nil for
	// a version that was made from nothing. The parent may have been removed since.
	ParentVersionID *string       `json:"parentVersionId"`
	Origin          VersionOrigin `json:"origin"`
}

// VersionOrigin says how a version was made. RunID and SessionID are nil if it was pushed.
type VersionOrigin struct {
	Type      string  `json:"type"` // OriginPush or OriginRun
	RunID     *string `json:"runId"`
	SessionID *string `json:"sessionId"`
}

// The types of origins.
const (
	OriginPush = "push"
	OriginRun  = "run"
)

// StorageUsage contains the storage usage of an organisation.
type StorageUsage struct {
	// StoredBytes and StoredObjects count compressed, deduplicated data.
	// LimitBytes is the limit of StoredBytes; nil without a limit.
	StoredBytes   int64  `json:"storedBytes"`
	StoredObjects int64  `json:"storedObjects"`
	LimitBytes    *int64 `json:"limitBytes"`
	Artifacts     int64  `json:"artifacts"`
	Volumes       int64  `json:"volumes"`
	Versions      int64  `json:"versions"`
	Checkpoints   int64  `json:"checkpoints"`
	VersionBytes  int64  `json:"versionBytes"` // sum of the sizes of all versions, before compression and deduplication
}

// FileEntry is one entry of a version. Mode is octal ("0644"), SHA256 is
// hexadecimal and set for files, and Target is set for symbolic links.
type FileEntry struct {
	Path       string `json:"path"`
	Kind       string `json:"kind"` // file, dir, symlink
	Mode       string `json:"mode"`
	Size       int64  `json:"size"`
	SHA256     string `json:"sha256,omitempty"`
	Target     string `json:"target,omitempty"`
	ModifiedAt Time   `json:"modifiedAt"`
}

// The kinds of changes between two versions.
const (
	FileAdded   = "added"
	FileRemoved = "removed"
	FileChanged = "changed" // in kind, mode, content, or target
	FileRenamed = "renamed" // the same content under another path
)

// FileChange is one difference between two versions. From is nil if the entry was
// added, and To is nil if it was removed. Path is the path of To, or the path of
// From if To is nil. The paths of From and To differ only if a file was renamed.
type FileChange struct {
	Path   string     `json:"path"`
	Change string     `json:"change"`
	From   *FileEntry `json:"from"`
	To     *FileEntry `json:"to"`
}
