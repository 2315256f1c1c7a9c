package auth

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
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
	secretBytes   = 32 // of a token; written as twice as many hexadecimal digits
	shownDigits   = 8  // of a token's digits in tokenPrefix
	maxTokenName  = 128
	maxPersonName = 64
)

// CreateToken makes a token for the caller with at most the caller's scopes.
// The answer alone holds the token itself. It needs the admin scope.
func (s *Service) CreateToken(ctx context.Context, c Caller, n stint.NewToken) (stint.Token, error) {
	if err := c.Require(stint.ScopeAdmin); err != nil {
		return stint.Token{}, err
	}
	days := stint.DefaultTokenDays
	if n.ExpiresInDays != nil {
		days = *n.ExpiresInDays
	}
	if err := stint.JoinErrors(tokenFaults(n, days)); err != nil {
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
	return s.issue(ctx, store.Token{OrgID: c.OrgID, UserID: c.UserID, Token: stint.Token{Name: n.Name, Scopes: scopes}}, days)
}

// Login makes a token with all scopes that the user's role allows, and makes
// the organisation and the user, as its owner, where they are missing. It asks
// for no credentials: the door that calls it has checked who stands there.
func (s *Service) Login(ctx context.Context, org, user, tokenName string, days int) (stint.Token, error) {
	faults := tokenFaults(stint.NewToken{Name: tokenName}, days)
	if e := stint.CheckName("organization", org); e != nil {
		faults = append(faults, e)
	}
	if e := checkLabel("user", user, maxPersonName); e != nil {
		faults = append(faults, e)
	}
	if err := stint.JoinErrors(faults); err != nil {
		return stint.Token{}, err
	}
	m, err := s.store.EnsureMember(ctx, store.Member{
		OrgID: s.ids.New(stint.PrefixOrg), OrgName: org,
		UserID: s.ids.New(stint.PrefixUser), UserName: user,
		Role: RoleOwner, CreatedAt: stint.TimeOf(s.now()),
	})
	if err != nil {
		return stint.Token{}, fmt.Errorf("make %s a member of %s: %w", user, org, err)
	}
	scopes := scopesOf(m.Role, stint.Scopes)
	return s.issue(ctx, store.Token{OrgID: m.OrgID, UserID: m.UserID, Token: stint.Token{Name: tokenName, Scopes: scopes}}, days)
}

// issue completes and stores a token.
func (s *Service) issue(ctx context.Context, t store.Token, days int) (stint.Token, error) {
	secret := make([]byte, secretBytes)
	if _, err := io.ReadFull(s.random, secret); err != nil {
		return stint.Token{}, fmt.Errorf("no randomness for a token: %w", err)
	}
	token := stint.TokenPrefix + hex.EncodeToString(secret)
	hash, now := sha256.Sum256([]byte(token)), s.now()
	t.ID = s.ids.New(stint.PrefixToken)
	t.TokenPrefix = token[:len(stint.TokenPrefix)+shownDigits]
	t.Scopes = slices.DeleteFunc(slices.Clone(stint.Scopes), func(scope string) bool { return !slices.Contains(t.Scopes, scope) })
	t.CreatedAt = stint.TimeOf(now)
	t.ExpiresAt = stint.TimeOf(now.Add(time.Duration(days) * 24 * time.Hour))
	t.Hash = hash[:]
	if err := s.store.CreateToken(ctx, t); err != nil {
		return stint.Token{}, fmt.Errorf("store token: %w", err)
	}
	answer := t.Token
	answer.Secret = token
	return answer, nil
}

func tokenFaults(n stint.NewToken, days int) (faults []*stint.Error) {
	if e := checkLabel("name", n.Name, maxTokenName); e != nil {
		faults = append(faults, e)
	}
	if days < 1 || days > stint.MaxTokenDays {
		faults = append(faults, stint.InvalidParam("expiresInDays", "'expiresInDays' must be between 1 and %d.", stint.MaxTokenDays))
	}
	for i, scope := range n.Scopes {
		if !slices.Contains(stint.Scopes, scope) {
			at := fmt.Sprintf("scopes[%d]", i)
			faults = append(faults, stint.InvalidParam(at, "'%s' must be one of %s.", at, strings.Join(stint.Scopes, ", ")))
		}
	}
	return faults
}

// checkLabel tells what is wrong with a name that people chose for people.
func checkLabel(param, label string, longest int) *stint.Error {
	if strings.TrimSpace(label) == "" {
		return stint.MissingParam(param, "'%s' is required: 1 to %d characters.", param, longest)
	}
	if !utf8.ValidString(label) || utf8.RuneCountInString(label) > longest || strings.ContainsFunc(label, unicode.IsControl) {
		return stint.InvalidParam(param, "'%s' must be 1 to %d characters without control characters.", param, longest)
	}
	return nil
}

// Tokens lists the organisation's tokens, newest first, up to r.Limit after
// r.After. It needs the admin scope.
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

// Token reads one token of the organisation that was not revoked. It needs the
// admin scope, except for the caller's own token.
func (s *Service) Token(ctx context.Context, c Caller, id string) (stint.Token, error) {
	if id != c.TokenID {
		if err := c.Require(stint.ScopeAdmin); err != nil {
			return stint.Token{}, err
		}
	}
	if !stint.IsID(stint.PrefixToken, id) {
		return stint.Token{}, stint.NotFound("token", id)
	}
	t, err := s.store.Token(ctx, c.OrgID, id)
	if errors.Is(err, store.ErrNotFound) || err == nil && t.RevokedAt != nil {
		return stint.Token{}, stint.NotFound("token", id)
	}
	if err != nil {
		return stint.Token{}, fmt.Errorf("read token %s: %w", id, err)
	}
	return t.Token, nil
}
