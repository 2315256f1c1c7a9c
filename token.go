package stint

import "slices"

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

// NewToken is the body of POST /v1/tokens. The token expires at ExpiresAt, or after
// ExpiresInDays (1 to 365); at most one of them is set. If neither is, the token expires
// after 90 days. If Scopes is nil, the token has all scopes of the caller.
type NewToken struct {
	Name          string   `json:"name"`
	ExpiresInDays *int     `json:"expiresInDays,omitempty"`
	ExpiresAt     *Time    `json:"expiresAt,omitempty"`
	Scopes        []string `json:"scopes,omitempty"`
}

// Secret describes a stored secret of an organisation, without its value. If Hosts is not
// empty, the value is sent only to these hosts and is never readable in a sandbox. If
// Agents is not empty, only the agents with these names can use the secret.
type Secret struct {
	Name      string   `json:"name"`
	Hosts     []string `json:"hosts,omitempty"`
	Agents    []string `json:"agents,omitempty"`
	CreatedAt Time     `json:"createdAt"`
	UpdatedAt Time     `json:"updatedAt"`
}

// NewSecret is the body of PUT /v1/secrets/:name. If Hosts or Agents is nil, the list of an
// existing secret is kept; an empty list removes the limit.
type NewSecret struct {
	Value  string   `json:"value"`
	Hosts  []string `json:"hosts,omitzero"`
	Agents []string `json:"agents,omitzero"`
}

// IsFor reports whether an agent can use the secret.
func (s *Secret) IsFor(agent string) bool {
	return len(s.Agents) == 0 || slices.Contains(s.Agents, agent)
}
