package client

import (
	"context"
	"crypto/rand"
	"iter"
	"net/http"

	"github.com/stint-dev/stint"
)

// Tokens manages the API tokens of the organisation.
type Tokens struct{ c *Client }

// Create creates a token. Only this response contains its Secret.
func (t *Tokens) Create(ctx context.Context, n stint.NewToken) (*stint.Token, error) {
	return fetch[stint.Token](ctx, t.c, call{method: http.MethodPost, path: []string{"tokens"}, body: n, key: rand.Text()})
}

// Get returns a token without its Secret.
func (t *Tokens) Get(ctx context.Context, id string) (*stint.Token, error) {
	return get[stint.Token](ctx, t.c, "tokens", id)
}

// List iterates over the tokens that are not revoked, and ends after an error.
func (t *Tokens) List(ctx context.Context) iter.Seq2[stint.Token, error] {
	return list[stint.Token](ctx, t.c, nil, 0, "tokens")
}

// Revoke revokes a token and ends the streams that were opened with it.
func (t *Tokens) Revoke(ctx context.Context, id string) error {
	return remove(ctx, t.c, "tokens", id)
}

// Secrets manages the stored secrets of the organisation. The server never returns
// their values.
type Secrets struct{ c *Client }

// Put stores a secret. It replaces a secret of the same name.
func (s *Secrets) Put(ctx context.Context, name string, n stint.NewSecret) (*stint.Secret, error) {
	return fetch[stint.Secret](ctx, s.c, call{method: http.MethodPut, path: []string{"secrets", name}, body: n})
}

// Get returns a secret without its value.
func (s *Secrets) Get(ctx context.Context, name string) (*stint.Secret, error) {
	return get[stint.Secret](ctx, s.c, "secrets", name)
}

// List iterates over the stored secrets in the order of their names, and ends after an
// error.
func (s *Secrets) List(ctx context.Context) iter.Seq2[stint.Secret, error] {
	return list[stint.Secret](ctx, s.c, nil, 0, "secrets")
}

// Delete deletes a secret.
func (s *Secrets) Delete(ctx context.Context, name string) error {
	return remove(ctx, s.c, "secrets", name)
}

// Named is an organisation or a user.
type Named struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// Me describes the token of a request, its user, and its organisation.
type Me struct {
	Organization Named       `json:"organization"`
	User         Named       `json:"user"`
	Token        stint.Token `json:"token"`
}

// Me returns the client's token with its user and organisation.
func (c *Client) Me(ctx context.Context) (*Me, error) {
	return get[Me](ctx, c, "me")
}
