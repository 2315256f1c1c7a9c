package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stint-dev/stint"
)

// ErrNotFound says that no row matches, in that organisation. Use cases turn
// it into the public error with the asked name.
var ErrNotFound = errors.New("store: not found")

// ErrExists says that a unique name is taken.
var ErrExists = errors.New("store: exists")

// ErrInUse says that something else needs the row.
var ErrInUse = errors.New("store: in use")

// ErrUnavailable says that the database cannot be reached or takes no work
// right now; the same call may succeed later.
var ErrUnavailable = errors.New("store: database unavailable")

// FencedError says that the caller no longer owns the run: the slot it wanted
// is taken by somebody else. Head and Status tell where the run stands.
type FencedError struct {
	Head   int64
	Status stint.Status
	Epoch  int64
}

// Error tells where the run stands.
func (e *FencedError) Error() string {
	return fmt.Sprintf("store: fenced: run is %s at event %d, epoch %d", e.Status, e.Head, e.Epoch)
}

// StateError says that the run's status forbids the transition.
type StateError struct{ Status stint.Status }

// Error tells the status.
func (e *StateError) Error() string { return "store: run is " + string(e.Status) }

// ConflictError says that the head of a tree is not the expected version.
type ConflictError struct{ Head string }

// Error tells the head.
func (e *ConflictError) Error() string { return "store: head is " + e.Head }

// Store is everything that Stint keeps in a database. It is safe for
// concurrent use; every method stops when ctx ends, and a write whose ctx
// ended may or may not have happened.
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

	// Ping checks that the database answers a read and accepts writes.
	Ping(ctx context.Context) error
	// Now is the database's clock. Leases are judged by it alone.
	Now(ctx context.Context) (time.Time, error)
	// Close waits for what is being written, then closes the database. It is
	// idempotent.
	Close() error
}

// After is a keyset position: items that sort after (At, ID) in the list's
// order, which is newest first. The zero value is the beginning.
type Cursor struct {
	At stint.Time
	ID string
}

// Range asks for a page: up to Limit items after After.
type Range struct {
	After Cursor
	Limit int
}

// Access keeps organisations, users, tokens and secrets.
type Access interface {
	// EnsureMember finds or creates the organisation and the user by name and
	// makes the user a member with the role (left as it is where it exists).
	// The identifiers given are used for what is created.
	EnsureMember(ctx context.Context, m Member) (Member, error)
	CreateToken(ctx context.Context, t Token) error
	// TokenByHash finds a token with its organisation and user, revoked and
	// expired ones included.
	TokenByHash(ctx context.Context, hash []byte) (Token, error)
	// TouchTokens records when tokens were last used; older times are ignored.
	TouchTokens(ctx context.Context, used map[string]stint.Time) error
	// Tokens lists the organisation's tokens that are not revoked.
	Tokens(ctx context.Context, org string, r Range) ([]Token, error)
	Token(ctx context.Context, org, id string) (Token, error)
	// RevokeToken ends the token; revoking twice gives ErrNotFound.
	RevokeToken(ctx context.Context, org, id string, at stint.Time) error

	// PutSecret creates or replaces a stored secret; created tells which. One
	// more than MaxSecrets, or than MaxSecretBytes have room for, is refused.
	PutSecret(ctx context.Context, s Secret) (created bool, err error)
	Secrets(ctx context.Context, org string) ([]Secret, error) // by name
	DeleteSecret(ctx context.Context, org, name string) error
}

// Bounds of the stored secrets of an organisation, all of which are masked in
// each of its runs: they are what a masker holds.
const (
	MaxSecrets     = 256
	MaxSecretBytes = 32 << 10 // of all values together, each of which is SealOverhead shorter than when sealed
	SealOverhead   = 37
)

// Member is a user in an organisation.
type Member struct {
	OrgID, OrgName   string
	UserID, UserName string
	Role             string // owner, member, viewer
	CreatedAt        stint.Time
}

// Token is a stored API token: the hash, never the token.
type Token struct {
	stint.Token
	Hash      []byte // SHA-256
	OrgID     string
	OrgName   string // read only
	UserID    string
	UserName  string // read only
	Role      string // read only
	RevokedAt *stint.Time
}

// Secret is a sealed secret of an organisation.
type Secret struct {
	stint.Secret
	OrgID  string
	Sealed []byte // bound to AssociatedData
}

// AssociatedData is what the sealed value is bound to, so that it opens nowhere else.
func (s *Secret) AssociatedData() []byte { return []byte("secret\x00" + s.OrgID + "\x00" + s.Name) }

// Agents keeps agents and their versions.
type Agents interface {
	// CreateAgent stores a new agent with its first version; ErrExists when
	// the organisation has an agent of that name.
	CreateAgent(ctx context.Context, a Agent, v AgentVersion) error
	// AddAgentVersion appends a version and moves the agent's current one. The
	// number is set by the store. When the current version has the same
	// Digest, nothing changes and added is false.
	AddAgentVersion(ctx context.Context, org string, v AgentVersion) (head AgentVersion, added bool, err error)
	Agent(ctx context.Context, org, id string) (Agent, error)
	AgentByName(ctx context.Context, org, name string) (Agent, error)
	Agents(ctx context.Context, org string, r Range) ([]Agent, error)
	// AgentVersion finds a version by its identifier, or by its number when
	// id is empty.
	AgentVersion(ctx context.Context, org, agent, id string, number int64) (AgentVersion, error)
	AgentVersions(ctx context.Context, org, agent string, r Range) ([]AgentVersion, error)
	// DeleteAgent hides the agent; its name becomes free, its runs stay.
	DeleteAgent(ctx context.Context, org, id string, at stint.Time) error
}

// Agent is a stored agent.
type Agent struct {
	stint.Agent
	OrgID string
}

// AgentVersion is a stored version with its definition and the digest of the
// definition's canonical form.
type AgentVersion struct {
	stint.AgentVersion
	Digest    string
	CreatedBy string
}

// FileSets keeps artifacts and volumes and their versions.
type FileSets interface {
	CreateFileSet(ctx context.Context, t FileSet) error // ErrExists when the name is taken
	FileSet(ctx context.Context, org string, kind stint.FileSetKind, id string) (FileSet, error)
	FileSetByName(ctx context.Context, org string, kind stint.FileSetKind, name string) (FileSet, error)
	FileSets(ctx context.Context, org string, kind stint.FileSetKind, r Range) ([]FileSet, error)
	// CommitVersion appends a version to a tree and moves the head. When
	// IfHead is not nil and names another head (empty: none), it is a
	// *ConflictError. When the head has the same Digest, nothing changes and
	// added is false.
	CommitVersion(ctx context.Context, c Commit) (head FileSetVersion, added bool, err error)
	// FileSetVersion finds a version by identifier, by number when id is empty,
	// or the head when both are zero.
	FileSetVersion(ctx context.Context, org, tree, id string, number int64) (FileSetVersion, error)
	FileSetVersions(ctx context.Context, org, tree string, r Range) ([]FileSetVersion, error)
	// DeleteFileSet hides the tree and its versions; its name becomes free.
	// Versions that a checkpoint names stay readable by checkpoint, and those
	// that runs mount stay until these have ended.
	DeleteFileSet(ctx context.Context, org string, kind stint.FileSetKind, id string, at stint.Time) error
	// DeleteVersion removes a version. The head, one that a checkpoint names
	// or a run mounts that has not ended, and one that is kept give ErrInUse.
	DeleteVersion(ctx context.Context, org, tree, id string) error
	// KeepVersion asks that a version is never removed by rules, or takes that
	// back.
	KeepVersion(ctx context.Context, org, tree, id string, keep bool, at stint.Time) error
	// PruneVersions removes the versions that the rule lets go, of all
	// organisations, and deleted trees without any left; it tells how many
	// versions went.
	PruneVersions(ctx context.Context, r Retention) (int64, error)
	// StorageUsage counts what an organisation keeps.
	StorageUsage(ctx context.Context, org string) (StorageUsage, error)
}

// FileSet is a stored artifact or volume.
type FileSet struct {
	stint.FileSet
	OrgID string
}

// FileSetVersion is a stored version with the digest of its manifest.
type FileSetVersion struct {
	stint.FileSetVersion
	FileSetID string
	Number    int64
	Digest    string
}

// Commit asks for a new version of a tree. The store sets the number and from
// it the identifier v<number>_<Suffix>.
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
	// Epoch is the epoch of collection under which the files were stored;
	// another than the current one gives ErrEpoch.
	Epoch    int64
	KeepHead bool // store the version, leave the head where it is
}

// Idempotency keeps the answers to requests that carried an Idempotency-Key.
type Idempotency interface {
	// BeginRequest claims the key of an organisation for a request. It returns
	// nil when the caller now owns it, the stored answer when the same request
	// was answered, ErrKeyReused when the key belongs to another request and
	// ErrKeyInUse while the first is still being worked. A claim older than
	// the stale limit is taken over: whoever had it can store no answer any
	// more. Answers are kept until expires.
	BeginRequest(ctx context.Context, org, key string, fingerprint []byte, now, stale, expires stint.Time) (*Answer, error)
	// EndRequest stores the answer of the request that claimed the key at that
	// time; when another has taken it over, it is ErrKeyInUse. A nil answer
	// gives the key up, if it is still the request's.
	EndRequest(ctx context.Context, org, key string, claimed stint.Time, a *Answer) error
	// PurgeRequests removes answers that expired before now.
	PurgeRequests(ctx context.Context, now stint.Time) (int64, error)
}

// Errors of requests with a key.
var (
	ErrKeyReused = errors.New("store: idempotency key belongs to another request")
	ErrKeyInUse  = errors.New("store: idempotency key is in use")
)

// Answer is a stored HTTP answer.
type Answer struct {
	Status int
	Header map[string]string
	Body   []byte
}
