package stint

// Scopes of a token.
const (
	ScopeRead  = "read"  // read everything in the organisation
	ScopeWrite = "write" // also start, cancel, create, push, and delete
	ScopeAdmin = "admin" // also manage tokens and secrets
)

// Scopes lists the scopes of users' tokens.
var Scopes = []string{ScopeRead, ScopeWrite, ScopeAdmin}

// TokenPrefix is the prefix of every user's token; 64 hexadecimal characters follow.
const TokenPrefix = "stint_live_"

// Token describes an API token. Secret is the token itself and is set only in the
// response to its creation.
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

// NewToken is the body of POST /v1/tokens. ExpiresInDays is 1 to 365, and 90 if it is
// nil. If Scopes is empty, the token has all scopes of the caller.
type NewToken struct {
	Name          string   `json:"name"`
	ExpiresInDays *int     `json:"expiresInDays,omitempty"`
	Scopes        []string `json:"scopes,omitempty"`
}

// Secret describes a stored secret of an organisation, without its value.
type Secret struct {
	Name      string `json:"name"`
	CreatedAt Time   `json:"createdAt"`
	UpdatedAt Time   `json:"updatedAt"`
}
