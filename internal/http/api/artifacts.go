package api

import (
	"net/http"
	"strings"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/artifacts"
	"github.com/stint-dev/stint/internal/auth"
	"github.com/stint-dev/stint/internal/paging"
	"github.com/stint-dev/stint/internal/store"
)

// fileSetAPI serves artifacts or volumes. Both have the same routes.
type fileSetAPI struct {
	a    *api
	kind stint.FileSetKind
}

func (s fileSetAPI) list(r *http.Request, c auth.Caller) (any, error) {
	q := queryOf(r)
	name := q.name()
	key := func(x *stint.FileSet) (stint.Time, string) { return x.CreatedAt, x.ID }
	return pageByTime(s.a.listOf(r, c, q, "name", "idPrefix").byID(s.kind.Prefix()), key, func(page store.Range) ([]stint.FileSet, error) {
		if name != "" {
			return s.listByName(r, c, name, page)
		}
		return s.a.c.Artifacts.List(r.Context(), c.OrgID, s.kind, page)
	})
}

// listByName returns the page of a list that is filtered by name. The first page
// contains the artifact or volume with that name, if it exists. Other pages are
// empty.
func (s fileSetAPI) listByName(r *http.Request, c auth.Caller, name string, page store.Range) ([]stint.FileSet, error) {
	found, err := s.a.c.Artifacts.ByName(r.Context(), c.OrgID, s.kind, name)
	switch {
	case stint.KindOf(err) == stint.KindNotFound:
		return nil, nil
	case err != nil:
		return nil, err
	case page.After.ID != "" || !strings.HasPrefix(found.ID, page.IDPrefix):
		return nil, nil
	}
	return []stint.FileSet{found}, nil
}

func (s fileSetAPI) create(p *post) (*response, error) {
	var in struct {
		Name string `json:"name"`
	}
	if err := decodeJSON(p.body, &in); err != nil {
		return nil, err
	}
	created, err := s.a.c.Artifacts.Create(p.r.Context(), p.caller, s.kind, in.Name)
	if err != nil {
		return nil, err
	}
	return createdResponse(p.r.URL.Path+"/"+created.ID, stint.FileSetDetail{FileSet: created}), nil
}

func (s fileSetAPI) get(r *http.Request, c auth.Caller) (any, error) {
	return s.a.c.Artifacts.Get(r.Context(), c.OrgID, s.kind, r.PathValue("id"))
}

func (s fileSetAPI) remove(r *http.Request, c auth.Caller) error {
	return s.a.c.Artifacts.Delete(r.Context(), c, s.kind, r.PathValue("id"))
}

func (s fileSetAPI) versions(r *http.Request, c auth.Caller) (any, error) {
	key := func(v *stint.FileSetVersion) (stint.Time, string) { return v.CreatedAt, v.ID }
	return pageByTime(s.a.listOf(r, c, queryOf(r)), key, func(page store.Range) ([]stint.FileSetVersion, error) {
		return s.a.c.Artifacts.Versions(r.Context(), c.OrgID, s.kind, r.PathValue("id"), page)
	})
}

func (s fileSetAPI) version(r *http.Request, c auth.Caller) (any, error) {
	return s.a.c.Artifacts.Version(r.Context(), c.OrgID, s.kind, r.PathValue("id"), r.PathValue("v"))
}

func (s fileSetAPI) removeVersion(r *http.Request, c auth.Caller) error {
	return s.a.c.Artifacts.DeleteVersion(r.Context(), c, s.kind, r.PathValue("id"), r.PathValue("v"))
}

// promote makes a version the current one.
func (s fileSetAPI) promote(p *post) (*response, error) {
	v, err := s.a.c.Artifacts.Promote(p.r.Context(), p.caller, s.kind, p.r.PathValue("id"), p.r.PathValue("v"), ifMatch(p.r))
	if err != nil {
		return nil, err
	}
	return jsonResponse(http.StatusOK, v), nil
}

// keepVersion protects a version from deletion by retention rules, and by requests to
// delete this version. releaseVersion ends the protection.
func (s fileSetAPI) keepVersion(r *http.Request, c auth.Caller) error {
	return s.a.c.Artifacts.KeepVersion(r.Context(), c, s.kind, r.PathValue("id"), r.PathValue("v"), true)
}

func (s fileSetAPI) releaseVersion(r *http.Request, c auth.Caller) error {
	return s.a.c.Artifacts.KeepVersion(r.Context(), c, s.kind, r.PathValue("id"), r.PathValue("v"), false)
}

// files returns a page of a version's entries, sorted by path.
func (s fileSetAPI) files(r *http.Request, c auth.Caller) (any, error) {
	q := queryOf(r)
	prefix, _ := q.text("prefix")
	l, limit := s.a.listOf(r, c, q, "prefix"), q.limit()
	versions, after, err := s.filePosition(r, c, l, r.PathValue("v"))
	if err != nil {
		return nil, err
	}
	entries, more, err := s.a.c.Artifacts.Files(r.Context(), c.OrgID, s.kind, r.PathValue("id"), versions[0],
		artifacts.FilePage{Prefix: prefix, After: after, Limit: limit})
	if err != nil {
		return nil, err
	}
	return paging.Encode(l.List, entries, more, func(last *stint.FileEntry) []byte {
		return encodeFilePosition(versions, last.Path)
	})
}

// filePosition returns the IDs of the requested versions, and the last path of the
// previous page, or "" for the first page. The cursor contains both, because a
// reference such as "current" may refer to another version when the next page is
// requested.
func (s fileSetAPI) filePosition(r *http.Request, c auth.Caller, l *list, references ...string) (versions []string, after string, err error) {
	position := l.position()
	parts := strings.Split(string(position), "\x00")
	if position != nil && len(parts) != len(references)+1 {
		l.q.fail(paging.ErrCursor)
	}
	if l.q.err != nil {
		return nil, "", l.q.err
	}
	if position != nil {
		return parts[:len(references)], parts[len(references)], nil
	}
	for _, reference := range references {
		v, err := s.a.c.Artifacts.Version(r.Context(), c.OrgID, s.kind, r.PathValue("id"), reference)
		if err != nil {
			return nil, "", err
		}
		versions = append(versions, v.ID)
	}
	return versions, "", nil
}

// encodeFilePosition returns the position that filePosition decodes. Paths do not
// contain the separator, a zero byte.
func encodeFilePosition(versions []string, path string) []byte {
	return []byte(strings.Join(versions, "\x00") + "\x00" + path)
}

// usage returns the storage usage of the organisation.
func (a *api) usage(r *http.Request, c auth.Caller) (any, error) {
	return a.c.Artifacts.Usage(r.Context(), c.OrgID)
}
