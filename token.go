package stint

// Scopes of a token.
const (
	ScopeRead  = "read"  // see everything of the organisation
	ScopeWrite = "write" // and start, cancel, create, push, delete
	ScopeAdmin = "admin" // and handle tokens and secrets
)

// Scopes lists every scope that a user's token may carry.
var Scopes = []string{ScopeRead, ScopeWrite, ScopeAdmin}

// TokenPrefix starts every token: stint_live_ and 64 hexadecimal characters.
const TokenPrefix = "stint_live_"

// Limits of a token's life in days.
const (
	DefaultTokenDays = 90
	MaxTokenDays     = 365
)

// Token describes an API token. Secret, the token itself, is set once, in the
// answer to its creation.
type Token struct {
	ID          string   `json:"id"`
	Name        string   `json:"name"`
	TokenPrefix string   `json:"tokenPrefix"`
	Scopes      []string `json:"scopes"`
	LastUsedAt  *Time    `json:"lastUsedAt"`
	ExpiresAt   Time     `json:"expiresAt"`
	CreatedAt   Time     `json:"createdAt"`
	Secret      string   `json:"token,omitempty"`
}

// NewToken is the body of POST /v1/tokens. ExpiresInDays is 1 to 365, 90 when
// nil; Scopes are all of the caller's when empty.
type NewToken struct {
	Name          string   `json:"name"`
	ExpiresInDays *int     `json:"expiresInDays,omitempty"`
	Scopes        []string `json:"scopes,omitempty"`
}

// Secret describes a stored secret of an organisation; its value is never
// returned.
type Secret struct {
	Name      string `json:"name"`
	CreatedAt Time   `json:"createdAt"`
	UpdatedAt Time   `json:"updatedAt"`
}
