package api

import (
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/artifacts"
	"github.com/stint-dev/stint/internal/auth"
	"github.com/stint-dev/stint/internal/files"
	"github.com/stint-dev/stint/internal/store"
)

// treeAPI is the API of one kind of tree: artifacts and volumes are alike.
type treeAPI struct {
	a    *api
	kind stint.FileSetKind
}

func (t treeAPI) list(r *http.Request, c auth.Caller) (any, error) {
	q := queryOf(r)
	name, given := q.text("name")
	if given && name == "" {
		q.fail(stint.InvalidParam("name", "'name' must be the name of %s.", withArticle(t.kind)))
	}
	place := func(x *stint.FileSet) (stint.Time, string) { return x.CreatedAt, x.ID }
	return paged(t.a.listOf(r, c, q, "name"), place, func(page store.Range) ([]stint.FileSet, error) {
		if given {
			return t.named(r, c, name, page)
		}
		return t.a.c.Artifacts.List(r.Context(), c.OrgID, t.kind, page)
	})
}

func withArticle(kind stint.FileSetKind) string {
	if kind == stint.Artifacts {
		return "an artifact"
	}
	return "a volume"
}

// named lists the one tree of a name, or none. Nothing follows it.
func (t treeAPI) named(r *http.Request, c auth.Caller, name string, page store.Range) ([]stint.FileSet, error) {
	tree, err := t.a.c.Artifacts.ByName(r.Context(), c.OrgID, t.kind, name)
	if stint.KindOf(err) == stint.KindNotFound || page.After.ID != "" {
		return nil, nil
	}
	return []stint.FileSet{tree}, err
}

func (t treeAPI) create(p *post) (*reply, error) {
	var body struct {
		Name string `json:"name"`
	}
	if err := decodeInto(p.body, &body); err != nil {
		return nil, err
	}
	made, err := t.a.c.Artifacts.Create(p.r.Context(), p.caller, t.kind, body.Name)
	if err != nil {
		return nil, err
	}
	answer := jsonReply(http.StatusCreated, stint.FileSetDetail{FileSet: made})
	answer.set("Location", p.r.URL.Path+"/"+made.ID)
	return answer, nil
}

func (t treeAPI) get(r *http.Request, c auth.Caller) (any, error) {
	return t.a.c.Artifacts.Get(r.Context(), c.OrgID, t.kind, r.PathValue("id"))
}

func (t treeAPI) remove(r *http.Request, c auth.Caller) error {
	return t.a.c.Artifacts.Delete(r.Context(), c, t.kind, r.PathValue("id"))
}

func (t treeAPI) versions(r *http.Request, c auth.Caller) (any, error) {
	place := func(v *stint.FileSetVersion) (stint.Time, string) { return v.CreatedAt, v.ID }
	return paged(t.a.listOf(r, c, queryOf(r)), place, func(page store.Range) ([]stint.FileSetVersion, error) {
		return t.a.c.Artifacts.Versions(r.Context(), c.OrgID, t.kind, r.PathValue("id"), page)
	})
}

func (t treeAPI) version(r *http.Request, c auth.Caller) (any, error) {
	return t.a.c.Artifacts.Version(r.Context(), c.OrgID, t.kind, r.PathValue("id"), r.PathValue("v"))
}

// push stores the archive in the body as the next version.
func (t treeAPI) push(p *post) (*reply, error) {
	format, err := archiveFormat(p.r.Header)
	if err != nil {
		return nil, err
	}
	return t.pushAs(p, format)
}

func (t treeAPI) pushAs(p *post, format files.Format) (*reply, error) {
	q := queryOf(p.r)
	message, _ := q.text("message")
	if q.err != nil {
		return nil, q.err
	}
	v, added, err := t.a.c.Artifacts.Push(p.r.Context(), p.caller, t.kind, p.r.PathValue("id"), artifacts.Push{
		Format: format, Archive: p.r.Body, Message: message, IfMatch: expectedHead(p.r.Header),
	})
	if err != nil {
		return nil, err
	}
	if !added {
		return jsonReply(http.StatusOK, v), nil
	}
	answer := jsonReply(http.StatusCreated, v)
	answer.set("Location", p.r.URL.Path+"/"+v.ID)
	return answer, nil
}

var archiveFormats = map[string]files.Format{
	"application/gzip": files.TarGzip, "application/x-gzip": files.TarGzip, "application/x-gtar": files.TarGzip,
	"application/tar+gzip": files.TarGzip, "application/x-tar+gzip": files.TarGzip, "application/x-tgz": files.TarGzip,
	"application/x-tar": files.Tar, "application/tar": files.Tar,
	"application/zstd": files.TarZstd, "application/x-zstd": files.TarZstd,
	"application/tar+zstd": files.TarZstd, "application/x-tar+zstd": files.TarZstd,
}

// archiveFormat reads the form of an archive from Content-Type; a tar may say
// by Content-Encoding that it is compressed.
func archiveFormat(h http.Header) (files.Format, error) {
	media, _, _ := strings.Cut(h.Get("Content-Type"), ";")
	format := archiveFormats[strings.ToLower(strings.TrimSpace(media))]
	switch encoding := strings.ToLower(h.Get("Content-Encoding")); {
	case format == files.Tar && encoding == "gzip":
		return files.TarGzip, nil
	case format == files.Tar && encoding == "zstd":
		return files.TarZstd, nil
	case format != "" && (encoding == "" || encoding == "identity"):
		return format, nil
	}
	return "", &stint.Error{
		Kind: stint.KindUnsupportedMedia, Code: stint.CodeUnsupportedMediaType, Param: "Content-Type",
		Message: "Send an archive: 'application/gzip' for a tar.gz, 'application/x-tar' for a tar or 'application/zstd' for a tar.zst.",
	}
}

// expectedHead reads If-Match: a version, in quotes or without.
func expectedHead(h http.Header) string {
	return strings.Trim(strings.TrimSpace(h.Get("If-Match")), `"`)
}

// files is a page of a version's entries. Their order is of the tree, so the
// last path is the position in it.
func (t treeAPI) files(r *http.Request, c auth.Caller) (any, error) {
	q := queryOf(r)
	prefix, _ := q.text("prefix")
	l, limit := t.a.listOf(r, c, q, "prefix"), q.limit()
	versions, after, err := t.walk(r, c, l, r.PathValue("v"))
	if err != nil {
		return nil, err
	}
	entries, more, err := t.a.c.Artifacts.Files(r.Context(), c.OrgID, t.kind, r.PathValue("id"), versions[0],
		artifacts.FilePage{Prefix: prefix, After: after, Limit: limit})
	if err != nil {
		return nil, err
	}
	page := stint.Page[stint.FileEntry]{Data: entries}
	if page.Data == nil {
		page.Data = []stint.FileEntry{}
	}
	if more {
		page.Pagination = nextOf(l, versions, entries[len(entries)-1].Path)
	}
	return page, nil
}

// walk gives the IDs of the versions that a walk over pages is of, and the path
// before the page. The cursor carries both: what is current may move between
// two pages.
func (t treeAPI) walk(r *http.Request, c auth.Caller, l *listing, specs ...string) (versions []string, after string, err error) {
	position := l.position()
	parts := strings.Split(string(position), "\x00")
	if position != nil && len(parts) != len(specs)+1 {
		l.q.fail(errCursor)
	}
	if l.q.err != nil {
		return nil, "", l.q.err
	}
	if position != nil {
		return parts[:len(specs)], parts[len(specs)], nil
	}
	for _, spec := range specs {
		v, err := t.a.c.Artifacts.Version(r.Context(), c.OrgID, t.kind, r.PathValue("id"), spec)
		if err != nil {
			return nil, "", err
		}
		versions = append(versions, v.ID)
	}
	return versions, "", nil
}

// nextOf is the pagination that walk reads. No path holds the separator.
func nextOf(l *listing, versions []string, path string) stint.Pagination {
	return l.next([]byte(strings.Join(versions, "\x00") + "\x00" + path))
}

// diff tells what changed between two versions: a page of changes, or the
// lines of one file.
func (t treeAPI) diff(w http.ResponseWriter, r *http.Request, c *auth.Caller) error {
	q := queryOf(r)
	from, given := q.text("from")
	if !given {
		q.fail(stint.MissingParam("from", "'from' is required: the version to compare with."))
	}
	to, _ := q.text("to")
	path, one := q.text("path")
	otherwise := formatJSON
	if accept := r.Header["Accept"]; quality(accept, "text", "x-diff") > quality(accept, "application", "json") {
		otherwise = formatUnified
	}
	switch format := q.choice("format", otherwise, formatJSON, formatUnified); {
	case format == formatUnified && !one:
		q.fail(stint.MissingParam("path", "'path' is required: the file to compare line by line."))
	case format == formatJSON && one:
		q.fail(stint.InvalidParam("format", "One file is compared line by line: add 'format=unified', or leave 'path' out."))
	}
	w.Header().Add("Vary", "Accept")
	if one {
		return t.textDiff(w, r, c, q, from, to, path)
	}
	page, err := t.changes(r, c, q, from, to)
	if err != nil {
		return err
	}
	jsonReply(http.StatusOK, page).write(w)
	return nil
}

// The forms of a difference.
const (
	formatJSON    = "json"
	formatUnified = "unified"
)

// changes is a page of what differs. Its order is of the trees, so the last
// path is the position in them.
func (t treeAPI) changes(r *http.Request, c *auth.Caller, q *query, from, to string) (any, error) {
	l, limit := t.a.listOf(r, *c, q, "from", "to", "format"), q.limit()
	versions, after, err := t.walk(r, *c, l, from, to)
	if err != nil {
		return nil, err
	}
	changes, more, err := t.a.c.Artifacts.Diff(r.Context(), c.OrgID, t.kind, r.PathValue("id"), versions[0], versions[1], after, limit)
	if err != nil {
		return nil, err
	}
	page := stint.Page[stint.FileChange]{Data: append([]stint.FileChange{}, changes...)}
	if more {
		page.Pagination = nextOf(l, versions, changes[len(changes)-1].Path)
	}
	return page, nil
}

// textDiff writes how one file differs. What it shows came from agents: a
// browser must not take it for a page.
func (t treeAPI) textDiff(w http.ResponseWriter, r *http.Request, c *auth.Caller, q *query, from, to, path string) error {
	if q.err != nil {
		return q.err
	}
	text, err := t.a.c.Artifacts.TextDiff(r.Context(), c.OrgID, t.kind, r.PathValue("id"), from, to, path)
	if err != nil {
		return err
	}
	h := w.Header()
	h.Set("Content-Type", "text/x-diff")
	guard(h)
	h["Cache-Control"] = noStore
	h.Set("Content-Length", strconv.Itoa(len(text)))
	w.WriteHeader(http.StatusOK)
	_, _ = io.WriteString(w, text)
	return nil
}
