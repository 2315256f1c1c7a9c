package auth

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/store"
)

// The roles of a user in an organisation.
const (
	RoleOwner  = "owner"
	RoleMember = "member"
	RoleViewer = "viewer" // may read, whatever the token says
)

// KeySize is the length of Config.Key in bytes.
const KeySize = 32

// Config is what a Service needs. Now and Random default to the real clock
// and crypto/rand.
type Config struct {
	Store  store.Access
	IDs    *stint.IDs
	Now    func() time.Time
	Key    []byte // KeySize bytes, secret, the same in every process and life of an installation
	Runs   Runs   // nil: tokens of runs are no good
	Random io.Reader
}

// Service knows callers, keeps tokens and signs what is handed out. It is
// safe for concurrent use and starts no goroutine.
type Service struct {
	store   store.Access
	runs    Runs
	ids     *stint.IDs
	now     func() time.Time
	random  io.Reader
	keys    keys
	cache   cache
	watches watches

	usedMu sync.Mutex // guards used
	used   map[string]stint.Time
}

// New makes a service. It panics when the key has not KeySize bytes: a server
// must never sign with less.
func New(c Config) *Service {
	if len(c.Key) != KeySize {
		panic(fmt.Sprintf("auth: a key of %d bytes, want %d", len(c.Key), KeySize))
	}
	s := &Service{store: c.Store, runs: c.Runs, ids: c.IDs, now: c.Now, random: c.Random, keys: deriveKeys(c.Key)}
	if s.now == nil {
		s.now = time.Now
	}
	if s.random == nil {
		s.random = rand.Reader
	}
	s.used = map[string]stint.Time{}
	return s
}

// ErrInvalidKey is the one answer to a token that is missing, malformed,
// unknown, expired or revoked: which of these it is stays hidden.
var ErrInvalidKey = &stint.Error{
	Kind: stint.KindUnauthenticated, Code: stint.CodeInvalidAPIKey,
	Message: "The API key is missing, malformed, expired or revoked. Send 'Authorization: Bearer <API_KEY>'.",
}

// Authenticate finds the caller that a token stands for, or gives
// ErrInvalidKey. A caller is remembered for up to cacheFor, so a token that
// another process revoked works that much longer; one revoked through this
// Service does not.
func (s *Service) Authenticate(ctx context.Context, token string) (Caller, error) {
	if signed, ok := strings.CutPrefix(token, RunTokenPrefix); ok {
		return s.runCaller(ctx, signed)
	}
	if !wellFormed(token) {
		return Caller{}, ErrInvalidKey
	}
	hash, now := sha256.Sum256([]byte(token)), s.now()
	if c, ok := s.cache.get(hash, now); ok {
		return s.unexpired(c, now)
	}
	generation := s.cache.generation()
	t, err := s.store.TokenByHash(ctx, hash[:])
	if errors.Is(err, store.ErrNotFound) {
		return Caller{}, ErrInvalidKey
	}
	if err != nil {
		return Caller{}, fmt.Errorf("look up token: %w", err)
	}
	if subtle.ConstantTimeCompare(t.Hash, hash[:]) != 1 || t.RevokedAt != nil {
		return Caller{}, ErrInvalidKey
	}
	c := callerOf(t)
	if _, err := s.unexpired(c, now); err != nil {
		return Caller{}, err
	}
	s.cache.put(hash, c, now, generation)
	s.touch(c.TokenID, now)
	return c, nil
}

// Check reports whether a token, known by its identifier, is still good: nil,
// ErrInvalidKey or a failure of the store. Long streams ask it from time to
// time, which finds what another process revoked.
func (s *Service) Check(ctx context.Context, org, tokenID string) error {
	if stint.IsID(stint.PrefixRun, tokenID) {
		return s.running(ctx, tokenID, anyEpoch)
	}
	now := s.now()
	if c, ok := s.cache.byID(tokenID, now); ok && c.OrgID == org {
		_, err := s.unexpired(c, now)
		return err
	}
	_, err := s.live(ctx, org, tokenID)
	return err
}

// live reads the caller of a token from the store and remembers it.
func (s *Service) live(ctx context.Context, org, tokenID string) (Caller, error) {
	generation, now := s.cache.generation(), s.now()
	t, err := s.store.Token(ctx, org, tokenID)
	if errors.Is(err, store.ErrNotFound) || err == nil && t.RevokedAt != nil {
		return Caller{}, ErrInvalidKey
	}
	if err != nil {
		return Caller{}, fmt.Errorf("look up token %s: %w", tokenID, err)
	}
	c := callerOf(t)
	if len(t.Hash) == sha256.Size {
		s.cache.put([sha256.Size]byte(t.Hash), c, now, generation)
	}
	return s.unexpired(c, now)
}

func (s *Service) unexpired(c Caller, now time.Time) (Caller, error) {
	if !now.Before(c.ExpiresAt.Time) {
		return Caller{}, ErrInvalidKey
	}
	return c, nil
}

func callerOf(t store.Token) Caller {
	return Caller{
		OrgID: t.OrgID, OrgName: t.OrgName, UserID: t.UserID, UserName: t.UserName,
		TokenID: t.ID, Scopes: scopesOf(t.Role, t.Scopes), ExpiresAt: t.ExpiresAt,
	}
}

func wellFormed(token string) bool {
	digits, ok := strings.CutPrefix(token, stint.TokenPrefix)
	return ok && len(digits) == 2*secretBytes && strings.Trim(digits, "0123456789abcdef") == ""
}

func (s *Service) touch(tokenID string, now time.Time) {
	s.usedMu.Lock()
	defer s.usedMu.Unlock()
	s.used[tokenID] = stint.TimeOf(now)
}

// Flush records when tokens were last used, as gathered since the last Flush
// and exact to cacheFor. What could not be written is kept for the next.
func (s *Service) Flush(ctx context.Context) error {
	s.usedMu.Lock()
	used := s.used
	s.used = map[string]stint.Time{}
	s.usedMu.Unlock()
	if len(used) == 0 {
		return nil
	}
	err := s.store.TouchTokens(ctx, used)
	if err == nil {
		return nil
	}
	s.usedMu.Lock()
	defer s.usedMu.Unlock()
	for id, at := range used {
		if _, newer := s.used[id]; !newer {
			s.used[id] = at
		}
	}
	return fmt.Errorf("record the use of %d tokens: %w", len(used), err)
}
