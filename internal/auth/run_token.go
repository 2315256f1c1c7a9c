package auth

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/store"
)

// RunTokenPrefix begins the tokens with which agents call the API.
const RunTokenPrefix = "stint_run_"

// MaxRunToken is the longest that the token of a run works.
const MaxRunToken = 24 * time.Hour

// Runs tells where a run stands; store.Runs does.
type Runs interface {
	RunState(ctx context.Context, id string) (stint.Status, int64, error)
}

// RunGrant is what the token of a run stands for: one start of it.
type RunGrant struct {
	OrgID string `json:"o"`
	RunID string `json:"r"`
	Epoch int64  `json:"p"` // a run that is started again gets another token
	Depth int    `json:"d"`

	Expires int64 `json:"e"` // Unix milliseconds; set by RunToken
}

// RunToken writes a token with which the agent of a run may call the API. It
// works while that start of the run is running, for the given time at most,
// which is cut to MaxRunToken. It is never stored and has no admin scope.
func (s *Service) RunToken(g RunGrant, works time.Duration) (string, error) {
	g.Expires = s.now().Add(min(works, MaxRunToken)).UnixMilli()
	signed, err := signJSON(s.keys.run, g)
	return RunTokenPrefix + signed, err
}

// runCaller finds the run that a token, without its prefix, stands for.
func (s *Service) runCaller(ctx context.Context, signed string) (Caller, error) {
	var g RunGrant
	if !verifyJSON(s.keys.run, signed, &g) || s.now().UnixMilli() >= g.Expires {
		return Caller{}, ErrInvalidKey
	}
	if err := s.running(ctx, g.RunID, g.Epoch); err != nil {
		return Caller{}, err
	}
	return Caller{
		OrgID: g.OrgID, TokenID: g.RunID, RunID: g.RunID, Depth: g.Depth,
		Scopes: []string{stint.ScopeRead, stint.ScopeWrite}, ExpiresAt: stint.TimeOf(time.UnixMilli(g.Expires)),
	}, nil
}

// anyEpoch asks whether a run is running, whichever start of it.
const anyEpoch = -1

// running is nil while the run is, else ErrInvalidKey or a failure of the store.
func (s *Service) running(ctx context.Context, id string, epoch int64) error {
	if s.runs == nil {
		return ErrInvalidKey
	}
	status, at, err := s.runs.RunState(ctx, id)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return ErrInvalidKey
	case err != nil:
		return fmt.Errorf("look up run %s of a token: %w", id, err)
	case status != stint.Running || epoch != anyEpoch && at != epoch:
		return ErrInvalidKey
	}
	return nil
}
