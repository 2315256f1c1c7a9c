package auth

import (
	"slices"

	"github.com/stint-dev/stint"
)

// Caller is the sender of a request: a user of an organisation, or the agent of a
// run.
type Caller struct {
	OrgID     string
	OrgName   string
	UserID    string
	UserName  string
	TokenID   string
	Role      string   // in the organisation
	Scopes    []string // of the token, reduced to the user's role
	ExpiresAt stint.Time

	// RunID is the run of the calling agent; it is empty for users. Depth is the number
	// of the run's ancestors: the run that started it, the run that started that one,
	// and so on. For an agent, UserID and UserName are empty, and TokenID is the run's ID.
	RunID string
	Depth int
}

// Name returns the caller's name in the form of createdBy: "run:" and the run's ID, or
// "user:" and the user's name.
func (c Caller) Name() string {
	if c.RunID != "" {
		return "run:" + c.RunID
	}
	return "user:" + c.UserName
}

// Can reports whether one of the caller's scopes includes scope.
func (c Caller) Can(scope string) bool { return includes(c.Scopes, scope) }

// Require returns an error with a message for the user if the caller does not have the
// scope.
func (c Caller) Require(scope string) error {
	if c.Can(scope) {
		return nil
	}
	return &stint.Error{
		Kind: stint.KindForbidden, Code: stint.CodeInsufficientScope,
		Message: "This needs a token with the scope '" + scope + "'. Create one with it, or ask an owner of the organisation.",
	}
}

// includes reports whether one of the scopes is scope or a higher one.
func includes(scopes []string, scope string) bool {
	wanted := slices.Index(stint.Scopes, scope)
	return wanted >= 0 && slices.ContainsFunc(scopes, func(s string) bool {
		return slices.Index(stint.Scopes, s) >= wanted
	})
}

// scopesOf returns the scopes of a token, reduced to those of the user's role.
func scopesOf(role string, scopes []string) []string {
	if role != RoleViewer {
		return scopes
	}
	if includes(scopes, stint.ScopeRead) {
		return []string{stint.ScopeRead}
	}
	return nil
}
