package api

import (
	"net/http"

	"github.com/stint-dev/stint/internal/auth"
)

func (t treeAPI) removeVersion(r *http.Request, c auth.Caller) error {
	return t.a.c.Artifacts.DeleteVersion(r.Context(), c, t.kind, r.PathValue("id"), r.PathValue("v"))
}

func (t treeAPI) keepVersion(r *http.Request, c auth.Caller) error {
	return t.a.c.Artifacts.KeepVersion(r.Context(), c, t.kind, r.PathValue("id"), r.PathValue("v"), true)
}

func (t treeAPI) releaseVersion(r *http.Request, c auth.Caller) error {
	return t.a.c.Artifacts.KeepVersion(r.Context(), c, t.kind, r.PathValue("id"), r.PathValue("v"), false)
}

func (a *api) usage(r *http.Request, c auth.Caller) (any, error) {
	return a.c.Artifacts.Usage(r.Context(), c.OrgID)
}
