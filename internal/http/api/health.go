package api

import (
	"net/http"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/auth"
)

type health struct {
	Status string `json:"status"`
}

// alive says that the process answers requests.
func (a *api) alive(w http.ResponseWriter, _ *http.Request, _ *auth.Caller) error {
	jsonReply(http.StatusOK, health{"ok"}).write(w)
	return nil
}

// ready says that requests can be served.
func (a *api) ready(w http.ResponseWriter, r *http.Request, _ *auth.Caller) error {
	if err := a.c.Ready(r.Context()); err != nil {
		return &stint.Error{Kind: stint.KindUnavailable, Code: stint.CodeUnavailable, Message: "The server is not ready.", Cause: err}
	}
	jsonReply(http.StatusOK, health{"ok"}).write(w)
	return nil
}
