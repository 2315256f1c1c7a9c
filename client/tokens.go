package client

import (
	"context"
	"iter"
	"net/http"

	"github.com/stint-dev/stint"
)

// Tokens handles the API tokens of the organisation.
type Tokens struct{ c *Client }

// Create makes a token. Its Secret is in this answer and never again.
func (t *Tokens) Create(ctx context.Context, n stint.NewToken) (*stint.Token, error) {
	token := new(stint.Token)
	if err := t.c.do(ctx, call{method: http.MethodPost, path: []string{"tokens"}, body: n, key: newKey()}, token); err != nil {
		return nil, err
	}
	return token, nil
}

// Get reads one token's description.
func (t *Tokens) Get(ctx context.Context, id string) (*stint.Token, error) {
	return get[*stint.Token](ctx, t.c, "tokens", id)
}

// List walks the tokens that are not revoked. An error ends the walk.
func (t *Tokens) List(ctx context.Context) iter.Seq2[stint.Token, error] {
	return list[stint.Token](ctx, t.c, nil, 0, "tokens")
}

// Revoke ends a token at once, and the streams that it opened.
func (t *Tokens) Revoke(ctx context.Context, id string) error {
	return remove(ctx, t.c, "tokens", id)
}

// Secrets handles the stored secrets of the organisation. Values are never
// returned.
type Secrets struct{ c *Client }

// Put stores a secret, replacing one of the same name.
func (s *Secrets) Put(ctx context.Context, name, value string) (*stint.Secret, error) {
	secret := new(stint.Secret)
	body := map[string]string{"value": value}
	if err := s.c.do(ctx, call{method: http.MethodPut, path: []string{"secrets", name}, body: body}, secret); err != nil {
		return nil, err
	}
	return secret, nil
}

// List walks the stored secrets by name. An error ends the walk.
func (s *Secrets) List(ctx context.Context) iter.Seq2[stint.Secret, error] {
	return list[stint.Secret](ctx, s.c, nil, 0, "secrets")
}

// Delete forgets a secret.
func (s *Secrets) Delete(ctx context.Context, name string) error {
	return remove(ctx, s.c, "secrets", name)
}

// Named is an organisation or a user.
type Named struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// Me returns the user and organisation of the token, and the token itself.
type Me struct {
	Organization Named       `json:"organization"`
	User         Named       `json:"user"`
	Token        stint.Token `json:"token"`
}

// Me asks the server who the caller is.
func (c *Client) Me(ctx context.Context) (*Me, error) {
	return get[*Me](ctx, c, "me")
}
