package api

import (
	"context"
	"net/http"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/auth"
)

// Frameworks returns all frameworks and whether they are available on this server.
// *agentcli.Finder implements it.
type Frameworks interface {
	Frameworks(ctx context.Context) []stint.Framework
}

// frameworkList is the response of GET /v1/frameworks. This list is not paged.
type frameworkList struct {
	Data []stint.Framework `json:"data"`
}

func (a *api) listFrameworks(r *http.Request, _ auth.Caller) (any, error) {
	return frameworkList{Data: a.c.Frameworks.Frameworks(r.Context())}, nil
}
