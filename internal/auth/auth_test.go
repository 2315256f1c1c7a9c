package auth_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/auth"
	"github.com/stint-dev/stint/internal/store"
	"github.com/stint-dev/stint/internal/store/sqlite"
)

// world contains a Service with its own database, and a clock that only the method pass
// advances.
type world struct {
	*testing.T
	store *countingStore
	auth  *auth.Service
	ids   *stint.IDs

	mu  sync.Mutex // guards at
	at  time.Time
	key []byte
}

// countingStore counts the lookups of tokens.
type countingStore struct {
	store.Store
	mu      sync.Mutex // guards lookups
	lookups int
}

func (c *countingStore) TokenByHash(ctx context.Context, hash []byte) (store.Token, error) {
	c.mu.Lock()
	c.lookups++
	c.mu.Unlock()
	return c.Store.TokenByHash(ctx, hash)
}

func openStore(t testing.TB) store.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "stint.db"), sqlite.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func newWorld(t *testing.T) *world {
	t.Helper()
	t.Parallel()
	w := &world{T: t, store: &countingStore{Store: openStore(t)}, at: time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC), key: make([]byte, auth.KeySize)}
	w.ids = stint.NewIDs(w.now, rand.Reader)
	w.auth = w.another()
	return w
}

// another returns a new Service with the same store, clock, and key, but an empty cache,
// like the Service of a second process of the same installation.
func (w *world) another() *auth.Service {
	return auth.New(auth.Config{Store: w.store, IDs: w.ids, Now: w.now, Key: w.key})
}

func (w *world) now() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.at
}

func (w *world) pass(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.at = w.at.Add(d)
}

func (w *world) login(org, user string) stint.Token {
	w.Helper()
	token, err := w.auth.Login(w.Context(), org, user, stint.NewToken{Name: "laptop"})
	if err != nil {
		w.Fatal(err)
	}
	return token
}

func (w *world) caller(secret string) auth.Caller {
	w.Helper()
	c, err := w.auth.Authenticate(w.Context(), secret)
	if err != nil {
		w.Fatal(err)
	}
	return c
}

// checkRefused reports an error if the token is accepted.
func (w *world) checkRefused(s *auth.Service, secret, why string) {
	w.Helper()
	c, err := s.Authenticate(w.Context(), secret)
	if !errors.Is(err, auth.ErrInvalidKey) || c.TokenID != "" {
		w.Errorf("%s: Authenticate returned %v, %v, want ErrInvalidKey", why, c, err)
	}
}

func codeOf(err error) string {
	if e, ok := errors.AsType[*stint.Error](err); ok {
		return e.Code
	}
	return fmt.Sprint(err)
}

func TestLogin(t *testing.T) {
	w := newWorld(t)
	token := w.login("acme", "ann")
	if rest, ok := strings.CutPrefix(token.Secret, "stint_live_"); !ok || len(rest) != 64 || strings.Trim(rest, "0123456789abcdef") != "" {
		t.Errorf("token %q does not consist of stint_live_ and 64 hexadecimal characters", token.Secret)
	}
	c := w.caller(token.Secret)
	want := auth.Caller{
		OrgID: c.OrgID, OrgName: "acme", UserID: c.UserID, UserName: "ann", TokenID: token.ID,
		Role: auth.RoleOwner, Scopes: []string{"read", "write", "admin"}, ExpiresAt: stint.TimeOf(w.at.AddDate(0, 0, 90)),
	}
	if d := cmp.Diff(want, c); d != "" {
		t.Errorf("caller (-want +got):\n%s", d)
	}
	if again := w.caller(w.login("acme", "ann").Secret); again.OrgID != c.OrgID || again.UserID != c.UserID {
		t.Error("a second login created another organisation or user")
	}
	if c.Name() != "user:ann" {
		t.Errorf("the caller's name is %q", c.Name())
	}
}

func TestLoginChecksParameters(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct {
		org, user, name string
		days            int
		want            string
	}{
		{"", "ann", "x", 90, stint.CodeMissingParameter},
		{"Acme!", "ann", "x", 90, stint.CodeInvalidParameter},
		{"acme", " ", "x", 90, stint.CodeMissingParameter},
		{"acme", "a\nb", "x", 90, stint.CodeInvalidParameter},
		{"acme", "ann", "", 90, stint.CodeMissingParameter},
		{"acme", "ann", strings.Repeat("x", 129), 90, stint.CodeInvalidParameter},
		{"acme", "ann", "x", 0, stint.CodeInvalidParameter},
		{"acme", "ann", "x", 366, stint.CodeInvalidParameter},
	} {
		_, err := w.auth.Login(t.Context(), c.org, c.user, stint.NewToken{Name: c.name, ExpiresInDays: &c.days})
		if codeOf(err) != c.want {
			t.Errorf("Login(%q, %q, %q, %d) returned %v, want %s", c.org, c.user, c.name, c.days, err, c.want)
		}
	}
}

// TestExpiry checks that tokens live as long as requested, and that a requested expiry is
// one minute to 365 days ahead.
func TestExpiry(t *testing.T) {
	w := newWorld(t)
	owner := w.caller(w.login("acme", "ann").Secret)
	days := 7
	in := func(d time.Duration) *stint.Time { at := stint.TimeOf(w.now().Add(d)); return &at }
	for name, c := range map[string]struct {
		n    stint.NewToken
		want time.Duration // 0: refused
	}{
		"default":      {stint.NewToken{}, 90 * 24 * time.Hour},
		"days":         {stint.NewToken{ExpiresInDays: &days}, 7 * 24 * time.Hour},
		"90 minutes":   {stint.NewToken{ExpiresAt: in(90*time.Minute + 1500*time.Millisecond)}, 90*time.Minute + 1500*time.Millisecond},
		"one minute":   {stint.NewToken{ExpiresAt: in(time.Minute)}, time.Minute},
		"365 days":     {stint.NewToken{ExpiresAt: in(365 * 24 * time.Hour)}, 365 * 24 * time.Hour},
		"58 seconds":   {stint.NewToken{ExpiresAt: in(58 * time.Second)}, 0},
		"the past":     {stint.NewToken{ExpiresAt: in(-time.Hour)}, 0},
		"over a year":  {stint.NewToken{ExpiresAt: in(365*24*time.Hour + 2*time.Second)}, 0},
		"both members": {stint.NewToken{ExpiresAt: in(time.Hour), ExpiresInDays: &days}, 0},
	} {
		c.n.Name = "ci"
		made, err := w.auth.CreateToken(t.Context(), owner, c.n)
		login, loginErr := w.auth.Login(t.Context(), "acme", "ann", c.n)
		if c.want == 0 {
			if codeOf(err) != stint.CodeInvalidParameter || codeOf(loginErr) != stint.CodeInvalidParameter {
				t.Errorf("%s: %v, %v", name, err, loginErr)
			}
			continue
		}
		for _, got := range []stint.Token{made, login} {
			if life := got.ExpiresAt.Sub(got.CreatedAt.Time); err != nil || loginErr != nil || life != c.want {
				t.Errorf("%s: life %s, want %s (%v, %v)", name, life, c.want, err, loginErr)
			}
		}
	}
	short, err := w.auth.CreateToken(t.Context(), owner, stint.NewToken{Name: "short", ExpiresAt: in(time.Minute)})
	if err != nil {
		t.Fatal(err)
	}
	w.pass(time.Minute - time.Millisecond)
	w.caller(short.Secret)
	w.pass(time.Millisecond)
	w.checkRefused(w.auth, short.Secret, "expired")
}

func TestInvalidTokens(t *testing.T) {
	w := newWorld(t)
	good := w.login("acme", "ann").Secret
	flipped := good[:len(good)-1] + string("0123456789abcdef"[(strings.IndexByte("0123456789abcdef", good[len(good)-1])+1)%16])
	before := w.store.lookups
	for why, secret := range map[string]string{
		"empty": "", "no prefix": good[11:], "short": good[:len(good)-1], "long": good + "0", "upper case": strings.ToUpper(good),
		"space": good + " ", "not hexadecimal": good[:len(good)-1] + "g", "another prefix": "other" + good[5:],
	} {
		w.checkRefused(w.auth, secret, why)
	}
	if w.store.lookups != before {
		t.Error("a malformed token was looked up")
	}
	w.checkRefused(w.auth, flipped, "unknown")
}

func TestExpiredTokens(t *testing.T) {
	w := newWorld(t)
	secret := w.login("acme", "ann").Secret
	w.caller(secret)
	w.pass(90*24*time.Hour - time.Second)
	w.caller(secret)
	w.pass(time.Second)
	w.checkRefused(w.auth, secret, "expired and cached")
	w.checkRefused(w.another(), secret, "expired")
}

func TestCallersAreCached(t *testing.T) {
	w := newWorld(t)
	secret := w.login("acme", "ann").Secret
	for range 100 {
		w.caller(secret)
	}
	if w.store.lookups != 1 {
		t.Errorf("100 requests caused %d lookups, want 1", w.store.lookups)
	}
	w.pass(10 * time.Second)
	w.caller(secret)
	if w.store.lookups != 2 {
		t.Errorf("%d lookups after the cache entry expired, want 2", w.store.lookups)
	}
}

func TestRevokeToken(t *testing.T) {
	w := newWorld(t)
	token := w.login("acme", "ann")
	c := w.caller(token.Secret)
	elsewhere := w.another()
	if _, err := elsewhere.Authenticate(t.Context(), token.Secret); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	w.auth.OnRevoked(token.ID, func() { close(ended) })
	w.auth.OnRevoked(token.ID, func() { t.Error("a function was called after its registration was cancelled") })()
	if err := w.auth.RevokeToken(t.Context(), c, token.ID); err != nil {
		t.Fatal(err)
	}
	select {
	case <-ended:
	default:
		t.Error("the function of OnRevoked was not called before RevokeToken returned")
	}
	w.checkRefused(w.auth, token.Secret, "revoked by this process")
	if err := w.auth.Check(t.Context(), c.OrgID, token.ID); !errors.Is(err, auth.ErrInvalidKey) {
		t.Errorf("Check of a revoked token returned %v", err)
	}
	w.pass(10 * time.Second)
	w.checkRefused(elsewhere, token.Secret, "revoked by another process")
	if err := elsewhere.Check(t.Context(), c.OrgID, token.ID); !errors.Is(err, auth.ErrInvalidKey) {
		t.Errorf("Check of a token revoked by another process returned %v", err)
	}
	if err := w.auth.RevokeToken(t.Context(), c, token.ID); codeOf(err) != stint.CodeResourceNotFound {
		t.Errorf("revoking twice returned %v", err)
	}
}

// TestRevokeTokenDuringLookup checks that a lookup that began before a revocation
// does not cache the token.
func TestRevokeTokenDuringLookup(t *testing.T) {
	w := newWorld(t)
	token := w.login("acme", "ann")
	c := w.caller(token.Secret)
	racing := &pausingStore{Store: w.store, found: make(chan struct{}), resume: make(chan struct{})}
	a := auth.New(auth.Config{Store: racing, IDs: w.ids, Now: w.now, Key: w.key})
	done := make(chan error)
	go func() {
		_, err := a.Authenticate(t.Context(), token.Secret)
		done <- err
	}()
	<-racing.found
	if err := a.RevokeToken(t.Context(), c, token.ID); err != nil {
		t.Fatal(err)
	}
	close(racing.resume)
	<-done
	racing.found = nil
	w.checkRefused(a, token.Secret, "after the revocation")
}

// pausingStore closes found after it has looked up a token, and waits until resume is
// closed before it returns the token. If found is nil, it returns at once.
type pausingStore struct {
	store.Store
	found  chan struct{}
	resume chan struct{}
}

func (s *pausingStore) TokenByHash(ctx context.Context, hash []byte) (store.Token, error) {
	t, err := s.Store.TokenByHash(ctx, hash)
	if s.found != nil {
		close(s.found)
		<-s.resume
	}
	return t, err
}

func TestScopes(t *testing.T) {
	w := newWorld(t)
	admin := w.caller(w.login("acme", "ann").Secret)
	create := func(c auth.Caller, scopes ...string) (stint.Token, error) {
		return w.auth.CreateToken(t.Context(), c, stint.NewToken{Name: "ci", Scopes: scopes})
	}
	created, err := create(admin, "write", "read", "write")
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"read", "write"}, created.Scopes); d != "" {
		t.Errorf("scopes (-want +got):\n%s", d)
	}
	writer := w.caller(created.Secret)
	for scope, want := range map[string]bool{"read": true, "write": true, "admin": false, "": false, "root": false} {
		if writer.Can(scope) != want {
			t.Errorf("Can(%q) of the scope write = %v, want %v", scope, !want, want)
		}
	}
	_, err = create(writer, "read")
	if codeOf(err) != stint.CodeInsufficientScope {
		t.Errorf("creating a token with the scope write returned %v", err)
	}
	if _, err := w.auth.Tokens(t.Context(), writer, store.Range{Limit: 10}); codeOf(err) != stint.CodeInsufficientScope {
		t.Errorf("listing tokens with the scope write returned %v", err)
	}
	if _, err := w.auth.Token(t.Context(), writer, admin.TokenID); codeOf(err) != stint.CodeInsufficientScope {
		t.Errorf("reading another token with the scope write returned %v", err)
	}
	if err := w.auth.RevokeToken(t.Context(), writer, admin.TokenID); codeOf(err) != stint.CodeInsufficientScope {
		t.Errorf("revoking another token with the scope write returned %v", err)
	}
	own, err := w.auth.Token(t.Context(), writer, writer.TokenID)
	if err != nil || own.ID != writer.TokenID || own.Secret != "" {
		t.Errorf("reading its own token with the scope write returned %v, %v", own, err)
	}
	if err := w.auth.RevokeToken(t.Context(), writer, writer.TokenID); err != nil {
		t.Errorf("revoking its own token with the scope write returned %v", err)
	}
	if _, err := create(admin, "root"); codeOf(err) != stint.CodeInvalidParameter {
		t.Errorf("an unknown scope returned %v", err)
	}
}

func TestScopesOfViewer(t *testing.T) {
	w := newWorld(t)
	_, err := w.store.EnsureMember(t.Context(), store.Member{
		OrgID: w.ids.New(stint.PrefixOrg), OrgName: "acme", UserID: w.ids.New(stint.PrefixUser), UserName: "vic",
		Role: auth.RoleViewer, CreatedAt: stint.TimeOf(w.at),
	})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"read"}, w.caller(w.login("acme", "vic").Secret).Scopes); d != "" {
		t.Errorf("a viewer's scopes (-want +got):\n%s", d)
	}
}

func TestTokensOfOtherOrganisations(t *testing.T) {
	w := newWorld(t)
	mine, theirs := w.caller(w.login("acme", "ann").Secret), w.login("blue", "bob")
	for _, id := range []string{theirs.ID, w.ids.New(stint.PrefixToken), "tok_", "", "x'; drop table tokens"} {
		if _, err := w.auth.Token(t.Context(), mine, id); codeOf(err) != stint.CodeResourceNotFound {
			t.Errorf("reading %q returned %v", id, err)
		}
		if err := w.auth.RevokeToken(t.Context(), mine, id); codeOf(err) != stint.CodeResourceNotFound {
			t.Errorf("revoking %q returned %v", id, err)
		}
	}
	w.caller(theirs.Secret)
	list, err := w.auth.Tokens(t.Context(), mine, store.Range{Limit: 10})
	if err != nil || len(list) != 1 || list[0].ID != mine.TokenID || list[0].Secret != "" {
		t.Errorf("the list is %v, %v", list, err)
	}
}

func TestFlush(t *testing.T) {
	w := newWorld(t)
	token := w.login("acme", "ann")
	used := stint.TimeOf(w.at)
	c := w.caller(token.Secret)
	failing, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.auth.Flush(failing); err == nil {
		t.Error("Flush with a cancelled context succeeded")
	}
	if err := w.auth.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.pass(time.Hour)
	if err := w.auth.Flush(t.Context()); err != nil { // nothing to record
		t.Fatal(err)
	}
	got, err := w.auth.Token(t.Context(), c, token.ID)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(&used, got.LastUsedAt); d != "" {
		t.Errorf("last use (-want +got):\n%s", d)
	}
}

func TestNewChecksKeySize(t *testing.T) {
	t.Parallel()
	defer func() {
		if recover() == nil {
			t.Error("New accepted a short key")
		}
	}()
	auth.New(auth.Config{Key: []byte("short")})
}
