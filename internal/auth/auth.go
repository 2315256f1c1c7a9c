package auth

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/store"
)

// The roles of a user in an organisation.
const (
	RoleOwner  = "owner"
	RoleMember = "member"
	RoleViewer = "viewer" // only reads, even with a token of a higher scope
)

// KeySize is the length of Config.Key in bytes.
const KeySize = 32

// Store is the part of store.Store that a Service needs.
type Store interface {
	EnsureMember(ctx context.Context, m store.Member) (store.Member, error)
	CreateToken(ctx context.Context, t store.Token) error
	TokenByHash(ctx context.Context, hash []byte) (store.Token, error)
	TouchTokens(ctx context.Context, used map[string]stint.Time) error
	Tokens(ctx context.Context, org string, r store.Range) ([]store.Token, error)
	Token(ctx context.Context, org, id string) (store.Token, error)
	RevokeToken(ctx context.Context, org, id string, at stint.Time) error
	FirstOrg(ctx context.Context) (string, error)
}

// Config contains the dependencies of a Service. Store, IDs, and Key are required.
type Config struct {
	Store Store
	IDs   *stint.IDs
	// Key is a secret of KeySize bytes. It is the same in every process of an
	// installation, also after a restart.
	Key    []byte
	Runs   Runs             // nil: the tokens of runs are refused
	Now    func() time.Time // default: time.Now
	Random io.Reader        // default: crypto/rand.Reader
}

// Service authenticates callers, manages tokens, and signs links and cursors. It
// is safe for concurrent use and does not start goroutines.
type Service struct {
	store   Store
	runs    Runs
	ids     *stint.IDs
	now     func() time.Time
	random  io.Reader
	keys    keys
	cache   cache
	watches watches

	firstOrg atomic.Pointer[string] // nil until IsOperator has read it

	usedMu sync.Mutex // guards used
	used   map[string]stint.Time
}

// New returns a Service. It panics if the key does not have KeySize bytes.
func New(c Config) *Service {
	if len(c.Key) != KeySize {
		panic(fmt.Sprintf("auth: the key has %d bytes, want %d", len(c.Key), KeySize))
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

// ErrInvalidKey is the error of a token that is missing, malformed, unknown,
// expired, or revoked. It does not reveal which of these it is.
var ErrInvalidKey = &stint.Error{
	Kind: stint.KindUnauthenticated, Code: stint.CodeInvalidAPIKey,
	Message: "The API key is missing, malformed, expired, or revoked. Send 'Authorization: Bearer <API_KEY>'.",
}

// Authenticate returns the caller of a token, or ErrInvalidKey. Callers are cached for
// cacheFor. Therefore a token that another process revoked can be accepted for up to
// cacheFor after that; a token that this Service revoked is refused at once.
func (s *Service) Authenticate(ctx context.Context, token string) (Caller, error) {
	if signed, ok := strings.CutPrefix(token, RunTokenPrefix); ok {
		return s.runCaller(ctx, signed)
	}
	if !wellFormed(token) {
		return Caller{}, ErrInvalidKey
	}
	hash, now := sha256.Sum256([]byte(token)), s.now()
	if c, ok := s.cache.get(hash, now); ok {
		return unexpired(c, now)
	}
	c, err := s.load(now, func() (store.Token, error) {
		t, err := s.store.TokenByHash(ctx, hash[:])
		if err == nil && subtle.ConstantTimeCompare(t.Hash, hash[:]) != 1 {
			err = store.ErrNotFound
		}
		return t, err
	})
	if err == nil {
		s.touch(c.TokenID, now)
	}
	return c, err
}

// Check returns nil if the token with the identifier is still valid, ErrInvalidKey
// if it is not, or an error of the store. Long streams call it periodically to
// detect that another process revoked the token.
func (s *Service) Check(ctx context.Context, org, tokenID string) error {
	if stint.IsID(stint.PrefixRun, tokenID) {
		return s.checkRunning(ctx, tokenID, anyEpoch)
	}
	_, err := s.callerByID(ctx, org, tokenID)
	return err
}

// callerByID returns the caller of the token with the identifier.
func (s *Service) callerByID(ctx context.Context, org, tokenID string) (Caller, error) {
	now := s.now()
	if c, ok := s.cache.byID(tokenID, now); ok && c.OrgID == org {
		return unexpired(c, now)
	}
	return s.load(now, func() (store.Token, error) { return s.store.Token(ctx, org, tokenID) })
}

// load reads a token from the store and caches its caller.
func (s *Service) load(now time.Time, read func() (store.Token, error)) (Caller, error) {
	generation := s.cache.generation()
	t, err := read()
	if errors.Is(err, store.ErrNotFound) || err == nil && t.RevokedAt != nil {
		return Caller{}, ErrInvalidKey
	}
	if err != nil {
		return Caller{}, fmt.Errorf("look up token: %w", err)
	}
	c, err := unexpired(callerOf(t), now)
	if err == nil {
		s.cache.put(tokenHash(t.Hash), c, now, generation)
	}
	return c, err
}

// unexpired returns c, or ErrInvalidKey if the caller's token has expired.
func unexpired(c Caller, now time.Time) (Caller, error) {
	if !now.Before(c.ExpiresAt.Time) {
		return Caller{}, ErrInvalidKey
	}
	return c, nil
}

func callerOf(t store.Token) Caller {
	return Caller{
		OrgID: t.OrgID, OrgName: t.OrgName, UserID: t.UserID, UserName: t.UserName,
		TokenID: t.ID, Role: t.Role, Scopes: scopesOf(t.Role, t.Scopes), ExpiresAt: t.ExpiresAt,
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

// Flush stores the times at which tokens were last used, with a resolution of cacheFor.
// If the store fails, the next Flush includes the same times.
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
	maps.Copy(used, s.used)
	s.used = used
	return fmt.Errorf("record the use of tokens: %w", err)
}
