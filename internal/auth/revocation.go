package auth

import (
	"context"
	"sync"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/store"
)

// RevokeToken revokes a token of the caller's organisation. When RevokeToken returns,
// this Service refuses the token and has called the functions that OnRevoked registered.
// RevokeToken requires the admin scope, except for the caller's own token.
func (s *Service) RevokeToken(ctx context.Context, c Caller, id string) error {
	if err := c.requireForToken(id); err != nil {
		return err
	}
	if err := s.store.RevokeToken(ctx, c.OrgID, id, stint.TimeOf(s.now())); err != nil {
		return store.PublicError(err, "token", id)
	}
	s.cache.drop(id)
	s.watches.revoked(id)
	return nil
}

// OnRevoked registers f, which is called once when this Service revokes the token.
// cancel removes f. f must not block and must not call cancel.
func (s *Service) OnRevoked(tokenID string, f func()) (cancel func()) {
	return s.watches.add(tokenID, f)
}

// watches contains the functions that OnRevoked registered.
type watches struct {
	mu  sync.Mutex // guards all
	all map[*watch]struct{}
}

type watch struct {
	tokenID string
	f       func()
}

func (w *watches) add(tokenID string, f func()) (cancel func()) {
	added := &watch{tokenID, f}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.all == nil {
		w.all = map[*watch]struct{}{}
	}
	w.all[added] = struct{}{}
	return func() { w.remove(added) }
}

func (w *watches) remove(added *watch) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.all, added)
}

// revoked calls the functions of a token and removes them.
func (w *watches) revoked(tokenID string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for watch := range w.all {
		if watch.tokenID == tokenID {
			delete(w.all, watch)
			watch.f()
		}
	}
}
