// Package secrets manages the stored secrets of organisations.
//
// A secret has a name, to which definitions refer, and a value, which is
// encrypted before it is stored. Only a worker that starts a run decrypts it.
package secrets

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/auth"
	"github.com/stint-dev/stint/internal/store"
)

// Sealer encrypts a value for its owner; *secret.Sealer is one.
type Sealer interface {
	Seal(plain, owner []byte) ([]byte, error)
}

// Config is what a Service needs. Now defaults to the real clock.
type Config struct {
	Store  store.Access
	Sealer Sealer
	Now    func() time.Time
}

// Service keeps secrets. It is safe for concurrent use. Every method needs the
// admin scope.
type Service struct{ c Config }

// New makes a service.
func New(c Config) *Service {
	if c.Now == nil {
		c.Now = time.Now
	}
	return &Service{c}
}

// Put stores a secret or replaces its value; created tells which.
func (s *Service) Put(ctx context.Context, c auth.Caller, name, value string) (kept stint.Secret, created bool, err error) {
	if err := c.Require(stint.ScopeAdmin); err != nil {
		return stint.Secret{}, false, err
	}
	if err := check(name, value); err != nil {
		return stint.Secret{}, false, err
	}
	now := stint.TimeOf(s.c.Now())
	row := store.Secret{OrgID: c.OrgID, Secret: stint.Secret{Name: name, CreatedAt: now, UpdatedAt: now}}
	if row.Sealed, err = s.c.Sealer.Seal([]byte(value), row.AssociatedData()); err != nil {
		return stint.Secret{}, false, errors.New("seal a secret") // the cause might quote the value
	}
	created, err = s.c.Store.PutSecret(ctx, row)
	if err != nil {
		return stint.Secret{}, false, fmt.Errorf("store secret %s: %w", name, err)
	}
	if created {
		return row.Secret, true, nil
	}
	kept, err = s.read(ctx, c.OrgID, name)
	return kept, false, err
}

func check(name, value string) error {
	if e := stint.CheckVariable("name", name); e != nil {
		return e
	}
	switch {
	case value == "":
		return stint.MissingParam("value", "'value' is required: the secret itself.")
	case len(value) > store.MaxSecretBytes:
		return stint.InvalidParam("value", "'value' may have %d bytes at most.", store.MaxSecretBytes)
	case strings.ContainsRune(value, 0) || !utf8.ValidString(value):
		return stint.InvalidParam("value", "'value' must be text without NUL characters.")
	}
	return nil
}

func (s *Service) read(ctx context.Context, org, name string) (stint.Secret, error) {
	rows, err := s.c.Store.Secrets(ctx, org)
	if err != nil {
		return stint.Secret{}, fmt.Errorf("read secret %s: %w", name, err)
	}
	for _, row := range rows {
		if row.Name == name {
			return row.Secret, nil
		}
	}
	return stint.Secret{}, stint.NotFound("secret", name)
}

// List reads up to limit secrets, by name, those after the given one.
func (s *Service) List(ctx context.Context, c auth.Caller, after string, limit int) ([]stint.Secret, error) {
	if err := c.Require(stint.ScopeAdmin); err != nil {
		return nil, err
	}
	rows, err := s.c.Store.Secrets(ctx, c.OrgID)
	if err != nil {
		return nil, fmt.Errorf("list secrets: %w", err)
	}
	slices.SortFunc(rows, func(a, b store.Secret) int { return cmp.Compare(a.Name, b.Name) })
	page := []stint.Secret{}
	for _, row := range rows {
		if row.Name > after && len(page) < limit {
			page = append(page, row.Secret)
		}
	}
	return page, nil
}

// Delete removes a secret.
func (s *Service) Delete(ctx context.Context, c auth.Caller, name string) error {
	if err := c.Require(stint.ScopeAdmin); err != nil {
		return err
	}
	if stint.CheckVariable("name", name) != nil {
		return stint.NotFound("secret", name)
	}
	err := s.c.Store.DeleteSecret(ctx, c.OrgID, name)
	if errors.Is(err, store.ErrNotFound) {
		return stint.NotFound("secret", name)
	}
	if err != nil {
		return fmt.Errorf("delete secret %s: %w", name, err)
	}
	return nil
}
