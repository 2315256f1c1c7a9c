package auth

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/store"
)

// RunTokenPrefix is the prefix of the tokens with which agents call the API.
const RunTokenPrefix = "stint_run_"

// MaxRunToken is the maximum lifetime of a run's token.
const MaxRunToken = 24 * time.Hour

// Runs returns the status and the epoch of a run. store.Store implements it.
type Runs interface {
	RunState(ctx context.Context, id string) (stint.Status, int64, error)
}

// RunGrant is the signed content of a run's token.
type RunGrant struct {
	OrgID string `json:"o"`
	RunID string `json:"r"`
	Epoch int64  `json:"p"` // the token is refused after the run was claimed again
	Depth int    `json:"d"`

	Expires int64 `json:"e"` // Unix milliseconds; set by RunToken
}

// RunToken returns a token with which the agent of a run may call the API, with
// the scopes read and write. The token is valid while the run is running in the epoch
// g.Epoch, for at most the shorter of lifetime and MaxRunToken. It is not stored.
func (s *Service) RunToken(g RunGrant, lifetime time.Duration) (string, error) {
	g.Expires = s.now().Add(min(lifetime, MaxRunToken)).UnixMilli()
	signed, err := signJSON(s.keys.run, g)
	return RunTokenPrefix + signed, err
}

// runCaller returns the caller of a run's token, which is given without its prefix.
func (s *Service) runCaller(ctx context.Context, signed string) (Caller, error) {
	var g RunGrant
	if !verifyJSON(s.keys.run, signed, &g) || s.now().UnixMilli() >= g.Expires {
		return Caller{}, ErrInvalidKey
	}
	if err := s.checkRunning(ctx, g.RunID, g.Epoch); err != nil {
		return Caller{}, err
	}
	return Caller{
		OrgID: g.OrgID, TokenID: g.RunID, RunID: g.RunID, Depth: g.Depth,
		Scopes: []string{stint.ScopeRead, stint.ScopeWrite}, ExpiresAt: stint.TimeOf(time.UnixMilli(g.Expires)),
	}, nil
}

// anyEpoch makes checkRunning accept every epoch of a run.
const anyEpoch = -1

// checkRunning returns ErrInvalidKey if the run is not running in the epoch, or an
// error of the store.
func (s *Service) checkRunning(ctx context.Context, id string, epoch int64) error {
	if s.runs == nil {
		return ErrInvalidKey
	}
	status, current, err := s.runs.RunState(ctx, id)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return ErrInvalidKey
	case err != nil:
		return fmt.Errorf("look up run %s of a token: %w", id, err)
	case status != stint.Running || epoch != anyEpoch && current != epoch:
		return ErrInvalidKey
	}
	return nil
}
