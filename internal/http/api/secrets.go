package api

import (
	"net/http"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/auth"
	"github.com/stint-dev/stint/internal/paging"
)

// listSecrets returns a page of secrets, sorted by name.
func (a *api) listSecrets(r *http.Request, c auth.Caller) (any, error) {
	q := queryOf(r)
	l, limit := a.listOf(r, c, q), q.limit()
	after := string(l.position())
	if q.err != nil {
		return nil, q.err
	}
	secrets, err := a.c.Secrets.List(r.Context(), c, after, limit+1)
	if err != nil {
		return nil, err
	}
	return paging.Encode(l.List, secrets[:min(len(secrets), limit)], len(secrets) > limit, func(last *stint.Secret) []byte {
		return []byte(last.Name)
	})
}

func (a *api) putSecret(w http.ResponseWriter, r *http.Request, c *auth.Caller) error {
	raw, err := readJSON(w, r)
	if err != nil {
		return err
	}
	var in stint.NewSecret
	if err := decodeLimited(raw, &in, "hosts", "agents"); err != nil {
		return err
	}
	secret, created, err := a.c.Secrets.Put(r.Context(), *c, r.PathValue("name"), in)
	if err != nil {
		return err
	}
	status := http.StatusOK
	if created {
		status = http.StatusCreated
	}
	jsonResponse(status, secret).write(w)
	return nil
}

func (a *api) getSecret(r *http.Request, c auth.Caller) (any, error) {
	return a.c.Secrets.Get(r.Context(), c, r.PathValue("name"))
}

func (a *api) deleteSecret(r *http.Request, c auth.Caller) error {
	return a.c.Secrets.Delete(r.Context(), c, r.PathValue("name"))
}
