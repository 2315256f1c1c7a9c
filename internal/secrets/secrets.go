// Package secrets manages the stored secrets of organisations.
//
// A secret has a name, to which definitions refer, and a value, which is encrypted
// before it is stored. It is decrypted only when a run is assigned to a worker, and when
// the installation's key is rotated.
package secrets

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/auth"
	"github.com/stint-dev/stint/internal/definition"
	"github.com/stint-dev/stint/internal/store"
)

// Sealer encrypts a value. Decryption requires the same owner. *sealing.Sealer
// implements Sealer.
type Sealer interface {
	Seal(plain, owner []byte) ([]byte, error)
}

// Store is the part of store.Store that a Service needs.
type Store interface {
	PutSecret(ctx context.Context, s store.Secret) (created bool, err error)
	Secrets(ctx context.Context, org string) ([]store.Secret, error)
	DeleteSecret(ctx context.Context, org, name string) error
}

// Config contains the dependencies of a Service. Store and Sealer are required.
type Config struct {
	Store  Store
	Sealer Sealer
	Now    func() time.Time // default: time.Now
}

// Service implements the use cases of stored secrets. It is safe for concurrent
// use. Every method requires the admin scope.
type Service struct{ c Config }

// New returns a Service.
func New(c Config) *Service {
	if c.Now == nil {
		c.Now = time.Now
	}
	return &Service{c}
}

// Put creates a secret or replaces it. created reports whether the secret is new.
func (s *Service) Put(ctx context.Context, c auth.Caller, name string, n stint.NewSecret) (secret stint.Secret, created bool, err error) {
	if err := c.Require(stint.ScopeAdmin); err != nil {
		return stint.Secret{}, false, err
	}
	if err := check(name, &n); err != nil {
		return stint.Secret{}, false, err
	}
	now := stint.TimeOf(s.c.Now())
	row := store.Secret{OrgID: c.OrgID, Secret: stint.Secret{Name: name, Hosts: n.Hosts, Agents: n.Agents, CreatedAt: now, UpdatedAt: now}}
	if row.Sealed, err = s.c.Sealer.Seal([]byte(n.Value), row.AssociatedData()); err != nil {
		return stint.Secret{}, false, errors.New("seal a secret") // the cause could contain the value
	}
	created, err = s.c.Store.PutSecret(ctx, row)
	if err != nil {
		return stint.Secret{}, false, fmt.Errorf("store secret %s: %w", name, err)
	}
	if created {
		return row.Secret, true, nil
	}
	secret, err = s.read(ctx, c.OrgID, name)
	return secret, false, err
}

// maxLimits is the maximum number of a secret's hosts, and of its agents.
const maxLimits = 64

func check(name string, n *stint.NewSecret) error {
	if e := stint.CheckVariable("name", name); e != nil {
		return e
	}
	for param, list := range map[string][]string{"hosts": n.Hosts, "agents": n.Agents} {
		if len(list) > maxLimits {
			return stint.InvalidParam(param, "'%s' may have %d members at most.", param, maxLimits)
		}
	}
	if err := definition.CheckSecretHosts(n.Hosts); err != nil {
		return err
	}
	for i, agent := range n.Agents {
		if e := stint.CheckName(fmt.Sprintf("agents[%d]", i), agent); e != nil {
			return e
		}
	}
	switch value := n.Value; {
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
	i := slices.IndexFunc(rows, func(row store.Secret) bool { return row.Name == name })
	if i < 0 {
		return stint.Secret{}, stint.NotFound("secret", name)
	}
	return rows[i].Secret, nil
}

// Get returns a secret. If it does not exist, the error is stint.NotFound.
func (s *Service) Get(ctx context.Context, c auth.Caller, name string) (stint.Secret, error) {
	if err := c.Require(stint.ScopeAdmin); err != nil {
		return stint.Secret{}, err
	}
	return s.read(ctx, c.OrgID, name)
}

// List returns at most limit secrets after the given name, sorted by name.
func (s *Service) List(ctx context.Context, c auth.Caller, after string, limit int) ([]stint.Secret, error) {
	if err := c.Require(stint.ScopeAdmin); err != nil {
		return nil, err
	}
	rows, err := s.c.Store.Secrets(ctx, c.OrgID)
	if err != nil {
		return nil, fmt.Errorf("list secrets: %w", err)
	}
	page := []stint.Secret{}
	for _, row := range rows {
		if row.Name > after && len(page) < limit {
			page = append(page, row.Secret)
		}
	}
	return page, nil
}

// Delete deletes a secret. If the secret does not exist, the error is stint.NotFound.
func (s *Service) Delete(ctx context.Context, c auth.Caller, name string) error {
	if err := c.Require(stint.ScopeAdmin); err != nil {
		return err
	}
	if stint.CheckVariable("name", name) != nil {
		return stint.NotFound("secret", name)
	}
	return store.PublicError(s.c.Store.DeleteSecret(ctx, c.OrgID, name), "secret", name)
}
