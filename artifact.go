package stint

// FileSetKind tells the two uses of a versioned tree of files apart: what agents
// produce and what they are given.
type FileSetKind string

// The kinds of tree.
const (
	Artifacts FileSetKind = "artifact"
	Volumes   FileSetKind = "volume"
)

// Prefix is the prefix of identifiers of that kind.
func (k FileSetKind) Prefix() string {
	if k == Artifacts {
		return PrefixArtifact
	}
	return PrefixVolume
}

// FileSet is an artifact or a volume. CurrentVersionID is nil while nothing was
// ever stored in it; CurrentVersion is set where one tree is read.
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

// FileSetDetail is a tree with its head, as reading one shows it.
type FileSetDetail struct {
	FileSet
	CurrentVersion *FileSetVersion `json:"currentVersion"`
}

// FileSetVersion is one state of a tree. Exactly one of ArtifactID and VolumeID
// is set.
type FileSetVersion struct {
	ID         string `json:"id"`
	ArtifactID string `json:"artifactId,omitempty"`
	VolumeID   string `json:"volumeId,omitempty"`
	Size       int64  `json:"size"`
	FileCount  int64  `json:"fileCount"`
	Message    string `json:"message"`
	CreatedBy  string `json:"createdBy"`
	CreatedAt  Time   `json:"createdAt"`
	Kept       bool   `json:"kept,omitempty"` // whatever the rules of retention say
}

// StorageUsage is what an organisation keeps.
type StorageUsage struct {
	// StoredBytes and StoredObjects lie in the storage: compressed, each piece
	// once however many versions hold it. LimitBytes bounds StoredBytes; nil is
	// no limit.
	StoredBytes   int64  `json:"storedBytes"`
	StoredObjects int64  `json:"storedObjects"`
	LimitBytes    *int64 `json:"limitBytes"`
	Artifacts     int64  `json:"artifacts"`
	Volumes       int64  `json:"volumes"`
	Versions      int64  `json:"versions"`
	Checkpoints   int64  `json:"checkpoints"`
	VersionBytes  int64  `json:"versionBytes"` // each version counted in full
}

// FileEntry is one entry of a version. Mode is octal text ("0644"); SHA256 is
// hex and set for files; Target is set for links.
type FileEntry struct {
	Path       string `json:"path"`
	Kind       string `json:"kind"` // file, dir, symlink
	Mode       string `json:"mode"`
	Size       int64  `json:"size"`
	SHA256     string `json:"sha256,omitempty"`
	Target     string `json:"target,omitempty"`
	ModifiedAt Time   `json:"modifiedAt"`
}

// The ways in which an entry differs between two versions.
const (
	FileAdded   = "added"
	FileRemoved = "removed"
	FileChanged = "changed" // in kind, mode, content or target
	FileRenamed = "renamed" // the same content under another path
)

// FileChange is one difference between two versions. Path is that of To, or
// that of From where there is no To; they differ where a file was renamed.
type FileChange struct {
	Path   string     `json:"path"`
	Change string     `json:"change"`
	From   *FileEntry `json:"from"`
	To     *FileEntry `json:"to"`
}
