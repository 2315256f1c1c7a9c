package api

import (
	"errors"
	"net/http"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/auth"
)

type health struct {
	Status string `json:"status"`
}

// healthz always responds with 200, which shows that the process responds.
func (a *api) healthz(w http.ResponseWriter, _ *http.Request, _ *auth.Caller) error {
	jsonResponse(http.StatusOK, health{"ok"}).write(w)
	return nil
}

// readyz responds with 200 if the server can serve requests and execute runs, and
// otherwise with 503. The message contains the reason if it is a *stint.Error.
func (a *api) readyz(w http.ResponseWriter, r *http.Request, _ *auth.Caller) error {
	err := a.c.Ready(r.Context())
	if reason, ok := errors.AsType[*stint.Error](err); ok {
		return reason
	}
	if err != nil {
		return &stint.Error{Kind: stint.KindUnavailable, Code: stint.CodeUnavailable, Message: "The server is not ready.", Cause: err}
	}
	jsonResponse(http.StatusOK, health{"ok"}).write(w)
	return nil
}
