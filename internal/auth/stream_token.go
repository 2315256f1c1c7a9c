package auth

import (
	"context"
	"time"

	"github.com/stint-dev/stint"
)

// StreamTokenLifetime is how long a stream token is valid.
const StreamTokenLifetime = 5 * time.Minute

// streamGrant is the signed content of a stream token.
type streamGrant struct {
	OrgID   string `json:"o"`
	RunID   string `json:"r"`
	TokenID string `json:"t"`
	Expires int64  `json:"e"` // Unix milliseconds
}

// StreamToken returns a token that is valid only for the event stream of one run.
// It is valid for StreamTokenLifetime, but not after the caller's own token has expired
// or was revoked. expires does not take the caller's own token into account.
func (s *Service) StreamToken(c Caller, runID string) (token string, expires stint.Time, err error) {
	expires = stint.TimeOf(s.now().Add(StreamTokenLifetime))
	token, err = signJSON(s.keys.stream, streamGrant{c.OrgID, runID, c.TokenID, expires.UnixMilli()})
	return token, expires, err
}

// AuthenticateStream returns the caller of a stream token for the run, with only
// the read scope, or ErrInvalidKey.
func (s *Service) AuthenticateStream(ctx context.Context, token, runID string) (Caller, error) {
	var g streamGrant
	if !verifyJSON(s.keys.stream, token, &g) || g.RunID != runID || s.now().UnixMilli() >= g.Expires {
		return Caller{}, ErrInvalidKey
	}
	c, err := s.callerByID(ctx, g.OrgID, g.TokenID)
	if err != nil {
		return Caller{}, err
	}
	if !c.Can(stint.ScopeRead) {
		return Caller{}, ErrInvalidKey
	}
	c.Scopes = []string{stint.ScopeRead}
	return c, nil
}
