package auth

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/store"
)

// RevokeToken ends a token of the caller's organisation: the next request with
// it fails and what OnRevoked registered is called before this returns. It
// needs the admin scope, except for the caller's own token.
func (s *Service) RevokeToken(ctx context.Context, c Caller, id string) error {
	if id != c.TokenID {
		if err := c.Require(stint.ScopeAdmin); err != nil {
			return err
		}
	}
	if !stint.IsID(stint.PrefixToken, id) {
		return stint.NotFound("token", id)
	}
	err := s.store.RevokeToken(ctx, c.OrgID, id, stint.TimeOf(s.now()))
	if errors.Is(err, store.ErrNotFound) {
		return stint.NotFound("token", id)
	}
	if err != nil {
		return fmt.Errorf("revoke token %s: %w", id, err)
	}
	s.cache.drop(id)
	s.watches.fire(id)
	return nil
}

// OnRevoked calls f, once and without delay, when the token is revoked through
// this Service; f must not block. cancel ends the watch.
func (s *Service) OnRevoked(tokenID string, f func()) (cancel func()) {
	return s.watches.add(tokenID, f)
}

// watches holds who wants to hear of a token's end.
type watches struct {
	mu      sync.Mutex // guards byToken
	byToken map[string]map[*func()]struct{}
}

func (w *watches) add(tokenID string, f func()) (cancel func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.byToken == nil {
		w.byToken = map[string]map[*func()]struct{}{}
	}
	if w.byToken[tokenID] == nil {
		w.byToken[tokenID] = map[*func()]struct{}{}
	}
	w.byToken[tokenID][&f] = struct{}{}
	return func() { w.remove(tokenID, &f) }
}

func (w *watches) remove(tokenID string, f *func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.byToken[tokenID], f)
	if len(w.byToken[tokenID]) == 0 {
		delete(w.byToken, tokenID)
	}
}

func (w *watches) fire(tokenID string) {
	w.mu.Lock()
	watching := w.byToken[tokenID]
	delete(w.byToken, tokenID)
	w.mu.Unlock()
	for f := range watching {
		(*f)()
	}
}
