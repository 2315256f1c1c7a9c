package store

import (
	"context"

	"github.com/stint-dev/stint"
)

// Access stores organisations, users, tokens, and secrets.
type Access interface {
	// EnsureMember finds or creates the organisation and the user by name, and
	// makes the user a member. An existing member keeps its role. The given IDs
	// are used for rows that are created.
	EnsureMember(ctx context.Context, m Member) (Member, error)
	CreateToken(ctx context.Context, t Token) error
	// TokenByHash returns a token with its organisation and user, even if it
	// was revoked or has expired.
	TokenByHash(ctx context.Context, hash []byte) (Token, error)
	// TouchTokens records when tokens were last used, by token ID. A time that
	// is earlier than the stored one is ignored.
	TouchTokens(ctx context.Context, used map[string]stint.Time) error
	// Tokens returns the organisation's tokens that are not revoked.
	Tokens(ctx context.Context, org string, r Range) ([]Token, error)
	Token(ctx context.Context, org, id string) (Token, error)
	// RevokeToken revokes a token. If it is already revoked, the error is
	// ErrNotFound.
	RevokeToken(ctx context.Context, org, id string, at stint.Time) error

	// PutSecret creates or replaces a stored secret and reports whether it was
	// created. If the secret would exceed MaxSecrets or MaxSecretBytes, the error is
	// a *stint.Error. If Hosts or Agents is nil, the list of an existing secret is
	// kept.
	PutSecret(ctx context.Context, s Secret) (created bool, err error)
	Secrets(ctx context.Context, org string) ([]Secret, error) // sorted by name
	DeleteSecret(ctx context.Context, org, name string) error
	// SecretNotices returns the organisations whose runs received all stored secrets
	// in an earlier release. It returns each organisation only once.
	SecretNotices(ctx context.Context) ([]SecretNotice, error)
}

// Limits of the stored secrets of an organisation. A definition may name all of them, so
// the limits equal those of a masker.
const (
	MaxSecrets     = 256
	MaxSecretBytes = 32 << 10 // of all values together, before sealing
	SealOverhead   = 37       // bytes by which sealing makes a value longer
)

// Member is a user in an organisation.
type Member struct {
	OrgID, OrgName   string
	UserID, UserName string
	Role             string // owner, member, or viewer
	CreatedAt        stint.Time
}

// Token is a stored API token: its hash, never the token itself.
type Token struct {
	stint.Token
	Hash      []byte // SHA-256
	OrgID     string
	OrgName   string // set when read, ignored when stored
	UserID    string
	UserName  string // set when read, ignored when stored
	Role      string // set when read, ignored when stored
	RevokedAt *stint.Time
}

// Secret is a sealed secret of an organisation.
type Secret struct {
	stint.Secret
	OrgID  string
	Sealed []byte // the value, sealed with AssociatedData
	// Unnamed is set if the secret was stored by a release in which every run received
	// it. Only a migration sets it.
	Unnamed bool
}

// SecretNotice is an organisation with secrets and agents that an earlier release stored.
type SecretNotice struct {
	OrgName         string
	Secrets, Agents int64
}

// AssociatedData returns the data that the sealed value is authenticated with, so that
// the sealed value of one secret cannot be used as that of another.
func (s *Secret) AssociatedData() []byte { return []byte("secret\x00" + s.OrgID + "\x00" + s.Name) }
