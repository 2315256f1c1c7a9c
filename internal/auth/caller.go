package auth

import (
	"slices"

	"github.com/stint-dev/stint"
)

// Caller is who makes a request: a user of an organisation, known by a token,
// or the agent of a run, known by the run's.
type Caller struct {
	OrgID     string
	OrgName   string
	UserID    string
	UserName  string
	TokenID   string
	Scopes    []string // what the token may do, as it was created
	ExpiresAt stint.Time

	// RunID is the run whose agent calls, and Depth how many runs started one
	// another down to it. Such a caller is no user: UserID and UserName are
	// empty, and TokenID is the run's. RunID is empty for users.
	RunID string
	Depth int
}

// Name is how versions name the caller as their creator.
func (c Caller) Name() string {
	if c.RunID != "" {
		return "run:" + c.RunID
	}
	return "user:" + c.UserName
}

// Can reports whether the caller's scopes include what scope allows.
func (c Caller) Can(scope string) bool { return includes(c.Scopes, scope) }

// Require is nil when the caller has the scope, else the error to answer.
func (c Caller) Require(scope string) error {
	if c.Can(scope) {
		return nil
	}
	return &stint.Error{
		Kind: stint.KindForbidden, Code: stint.CodeInsufficientScope,
		Message: "This needs a token with the scope '" + scope + "'. Create one with it, or ask an owner of the organisation.",
	}
}

// includes reports whether one of the scopes is scope or stands above it.
func includes(scopes []string, scope string) bool {
	wanted := slices.Index(stint.Scopes, scope)
	return wanted >= 0 && slices.ContainsFunc(scopes, func(s string) bool {
		return slices.Index(stint.Scopes, s) >= wanted
	})
}

// scopesOf cuts a token's scopes to what the user's role allows.
func scopesOf(role string, scopes []string) []string {
	if role != RoleViewer {
		return scopes
	}
	if includes(scopes, stint.ScopeRead) {
		return []string{stint.ScopeRead}
	}
	return nil
}
