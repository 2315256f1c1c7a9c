package api

import (
	"net/http"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/auth"
)

// listSecrets is a page of secrets by name, so the last name is the position.
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
	if len(secrets) <= limit {
		return stint.Page[stint.Secret]{Data: secrets}, nil
	}
	secrets = secrets[:limit]
	return stint.Page[stint.Secret]{Data: secrets, Pagination: l.next([]byte(secrets[limit-1].Name))}, nil
}

func (a *api) putSecret(w http.ResponseWriter, r *http.Request, c *auth.Caller) error {
	raw, err := readJSON(w, r)
	if err != nil {
		return err
	}
	var body struct {
		Value string `json:"value"`
	}
	if err := decodeInto(raw, &body); err != nil {
		return err
	}
	kept, created, err := a.c.Secrets.Put(r.Context(), *c, r.PathValue("name"), body.Value)
	if err != nil {
		return err
	}
	status := http.StatusOK
	if created {
		status = http.StatusCreated
	}
	jsonReply(status, kept).write(w)
	return nil
}

func (a *api) deleteSecret(r *http.Request, c auth.Caller) error {
	return a.c.Secrets.Delete(r.Context(), c, r.PathValue("name"))
}
