package api

import (
	"context"
	"net/http"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/auth"
)

// Frameworks tells the ways of driving agents; *programs.Finder is one.
type Frameworks interface {
	// Frameworks tells of each whether it works here.
	Frameworks(ctx context.Context) []stint.Framework
}

// frameworkList is not paged: it is as long as a build makes it.
type frameworkList struct {
	Data []stint.Framework `json:"data"`
}

func (a *api) listFrameworks(r *http.Request, _ auth.Caller) (any, error) {
	return frameworkList{Data: a.c.Frameworks.Frameworks(r.Context())}, nil
}
