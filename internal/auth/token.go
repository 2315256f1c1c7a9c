package auth

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/store"
)

const (
	secretBytes  = 32 // of a token; encoded as twice as many hexadecimal digits
	shownDigits  = 8  // of a token's digits in tokenPrefix
	maxTokenName = 128
	maxUserName  = 64
)

// CreateToken creates a token for the caller, at most with the caller's scopes.
// Only its result contains the secret. It requires the admin scope.
func (s *Service) CreateToken(ctx context.Context, c Caller, n stint.NewToken) (stint.Token, error) {
	if err := c.Require(stint.ScopeAdmin); err != nil {
		return stint.Token{}, err
	}
	expires, e := s.expiry(n)
	if err := stint.JoinErrors(append(tokenErrors(n), e)...); err != nil {
		return stint.Token{}, err
	}
	scopes := n.Scopes
	if len(scopes) == 0 {
		scopes = c.Scopes
	}
	for _, scope := range scopes {
		if err := c.Require(scope); err != nil {
			return stint.Token{}, err
		}
	}
	return s.issue(ctx, store.Token{OrgID: c.OrgID, UserID: c.UserID, Token: stint.Token{Name: n.Name, Scopes: scopes, ExpiresAt: expires}})
}

// Login creates a token with all scopes of the user's role; it ignores n.Scopes. It
// creates the organisation and the user if they do not exist. A user that is not yet a
// member of the organisation becomes an owner. The caller of Login has authenticated the
// user.
func (s *Service) Login(ctx context.Context, org, user string, n stint.NewToken) (stint.Token, error) {
	n.Scopes = nil
	expires, e := s.expiry(n)
	errs := append(tokenErrors(n), e,
		stint.CheckName("organization", org), checkLabel("user", user, maxUserName))
	if err := stint.JoinErrors(errs...); err != nil {
		return stint.Token{}, err
	}
	m, err := s.store.EnsureMember(ctx, store.Member{
		OrgID: s.ids.New(stint.PrefixOrg), OrgName: org,
		UserID: s.ids.New(stint.PrefixUser), UserName: user,
		Role: RoleOwner, CreatedAt: stint.TimeOf(s.now()),
	})
	if err != nil {
		return stint.Token{}, fmt.Errorf("add %s to %s: %w", user, org, err)
	}
	scopes := scopesOf(m.Role, stint.Scopes)
	return s.issue(ctx, store.Token{OrgID: m.OrgID, UserID: m.UserID, Token: stint.Token{Name: n.Name, Scopes: scopes, ExpiresAt: expires}})
}

// issue completes and stores a token.
func (s *Service) issue(ctx context.Context, t store.Token) (stint.Token, error) {
	secret := make([]byte, secretBytes)
	if _, err := io.ReadFull(s.random, secret); err != nil {
		return stint.Token{}, fmt.Errorf("read random bytes for a token: %w", err)
	}
	token := stint.TokenPrefix + hex.EncodeToString(secret)
	hash := sha256.Sum256([]byte(token))
	t.ID = s.ids.New(stint.PrefixToken)
	t.TokenPrefix = token[:len(stint.TokenPrefix)+shownDigits]
	t.Scopes = slices.DeleteFunc(slices.Clone(stint.Scopes), func(scope string) bool { return !slices.Contains(t.Scopes, scope) })
	t.CreatedAt = stint.TimeOf(s.now())
	t.Hash = hash[:]
	if err := s.store.CreateToken(ctx, t); err != nil {
		return stint.Token{}, fmt.Errorf("store token: %w", err)
	}
	t.Secret = token
	return t.Token, nil
}

// clockTolerance is the time by which a requested expiry may be too early or too late:
// the request needs some time to arrive, and clocks differ.
const clockTolerance = time.Second

// expiry returns the time at which a requested token expires.
func (s *Service) expiry(n stint.NewToken) (stint.Time, *stint.Error) {
	now := s.now()
	switch {
	case n.ExpiresAt != nil && n.ExpiresInDays != nil:
		return stint.Time{}, stint.InvalidParam("expiresAt", "'expiresAt' and 'expiresInDays' exclude each other. Leave one of them out.")
	case n.ExpiresAt != nil:
		if life := n.ExpiresAt.Sub(now); life < stint.MinTokenLife-clockTolerance || life > stint.MaxTokenLife+clockTolerance {
			return stint.Time{}, stint.InvalidParam("expiresAt", "'expiresAt' must be between one minute and %d days from now.", stint.MaxTokenDays)
		}
		return *n.ExpiresAt, nil
	}
	days := stint.DefaultTokenDays
	if n.ExpiresInDays != nil {
		days = *n.ExpiresInDays
	}
	if days < 1 || days > stint.MaxTokenDays {
		return stint.Time{}, stint.InvalidParam("expiresInDays", "'expiresInDays' must be between 1 and %d.", stint.MaxTokenDays)
	}
	return stint.TimeOf(now.Add(time.Duration(days) * 24 * time.Hour)), nil
}

// tokenErrors returns the errors of a request for a token. Elements can be nil.
func tokenErrors(n stint.NewToken) []*stint.Error {
	errs := []*stint.Error{checkLabel("name", n.Name, maxTokenName)}
	if n.Scopes != nil && len(n.Scopes) == 0 {
		errs = append(errs, stint.InvalidParam("scopes", "'scopes' is empty. List the scopes of the token, or omit 'scopes' for all of yours."))
	}
	for i, scope := range n.Scopes {
		if !slices.Contains(stint.Scopes, scope) {
			at := fmt.Sprintf("scopes[%d]", i)
			errs = append(errs, stint.InvalidParam(at, "'%s' must be one of %s.", at, strings.Join(stint.Scopes, ", ")))
		}
	}
	return errs
}

// checkLabel returns an error if the name of a token or user is blank, has more than
// maxLength characters, is not valid UTF-8, or contains control characters.
func checkLabel(param, label string, maxLength int) *stint.Error {
	if strings.TrimSpace(label) == "" {
		return stint.MissingParam(param, "'%s' is required: 1 to %d characters.", param, maxLength)
	}
	if !utf8.ValidString(label) || utf8.RuneCountInString(label) > maxLength || strings.ContainsFunc(label, unicode.IsControl) {
		return stint.InvalidParam(param, "'%s' must be 1 to %d characters without control characters.", param, maxLength)
	}
	return nil
}

// Tokens returns a page of the organisation's tokens, newest first. It requires the
// admin scope.
func (s *Service) Tokens(ctx context.Context, c Caller, r store.Range) ([]stint.Token, error) {
	if err := c.Require(stint.ScopeAdmin); err != nil {
		return nil, err
	}
	stored, err := s.store.Tokens(ctx, c.OrgID, r)
	if err != nil {
		return nil, fmt.Errorf("list tokens: %w", err)
	}
	tokens := make([]stint.Token, len(stored))
	for i, t := range stored {
		tokens[i] = t.Token
	}
	return tokens, nil
}

// Token returns a token of the organisation that is not revoked. It requires the
// admin scope, except for the caller's own token.
func (s *Service) Token(ctx context.Context, c Caller, id string) (stint.Token, error) {
	if err := c.requireForToken(id); err != nil {
		return stint.Token{}, err
	}
	t, err := s.store.Token(ctx, c.OrgID, id)
	if err == nil && t.RevokedAt != nil {
		err = store.ErrNotFound
	}
	if err != nil {
		return stint.Token{}, store.PublicError(err, "token", id)
	}
	return t.Token, nil
}

// requireForToken returns an error if the caller may not read or revoke a token, or
// if id is not the identifier of one.
func (c Caller) requireForToken(id string) error {
	if id != c.TokenID {
		if err := c.Require(stint.ScopeAdmin); err != nil {
			return err
		}
	}
	if !stint.IsID(stint.PrefixToken, id) {
		return stint.NotFound("token", id)
	}
	return nil
}
