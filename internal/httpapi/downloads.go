package httpapi

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/auth"
)

// download sends the client to an address from which the archive can be read
// without a token, for an hour.
func (t treeAPI) download(w http.ResponseWriter, r *http.Request, c *auth.Caller) error {
	q := queryOf(r)
	spec, given := q.text("versionId")
	if given && spec == "" {
		q.fail(stint.NoSuch(string(t.kind)+" version", spec))
	}
	if q.err != nil {
		return q.err
	}
	id := r.PathValue("id")
	v, err := t.a.c.Trees.Resolve(r.Context(), c.OrgID, t.kind, id, spec)
	if err != nil {
		return err
	}
	link, err := t.a.c.Auth.SignLink(auth.Link{OrgID: c.OrgID, Kind: t.kind, TreeID: id, VersionID: v.ID})
	if err != nil {
		return err
	}
	answer := &reply{status: http.StatusFound}
	answer.set("Location", t.a.baseURL(r)+"/v1/downloads/"+link)
	answer.write(w)
	return nil
}

func archiveName(tree string, number int64) string { return fmt.Sprintf("%s-v%d.tar.gz", tree, number) }

// baseURL begins the addresses that answers hold.
func (a *api) baseURL(r *http.Request) string {
	if a.c.PublicURL != "" {
		return a.c.PublicURL
	}
	u := url.URL{Scheme: "http", Host: r.Host}
	if r.TLS != nil {
		u.Scheme = "https"
	}
	return u.String()
}

// serveDownload serves the archive that a link stands for. The link is all
// that is asked; an Authorization header that a client sends again is ignored.
func (a *api) serveDownload(w http.ResponseWriter, r *http.Request, _ *auth.Caller) error {
	link, ok := a.c.Auth.VerifyLink(r.PathValue("link"))
	if !ok {
		return &stint.Error{
			Kind: stint.Forbidden, Code: stint.CodeInsufficientScope,
			Message: "This download link is wrong or has expired. Ask for a new one.",
		}
	}
	archive, of, err := a.c.Trees.Archive(r.Context(), link.OrgID, link.Kind, link.TreeID, link.VersionID)
	if err != nil {
		return err
	}
	defer func() { _ = archive.Close() }()
	return serveContent(w, r, a.c.WriteTimeout, archive, served{
		contentType: "application/gzip", name: archiveName(of.Tree.Name, of.Version.Number),
		etag: of.Version.Digest, modified: of.Version.CreatedAt.Time,
	})
}

// file serves one file of a version.
func (t treeAPI) file(w http.ResponseWriter, r *http.Request, c *auth.Caller) error {
	asked := r.PathValue("path")
	f, entry, err := t.a.c.Trees.Open(r.Context(), c.OrgID, t.kind, r.PathValue("id"), r.PathValue("v"), asked)
	if err != nil {
		return err
	}
	defer f.Close()
	return serveContent(w, r, t.a.c.WriteTimeout, f, served{
		contentType: "application/octet-stream", name: path.Base(asked),
		etag: entry.SHA256, modified: entry.ModifiedAt.Time,
	})
}

// served says how content is to be shown.
type served struct {
	contentType string
	name        string // under which a browser stores it
	etag        string // without quotes
	modified    time.Time
}

// serveContent answers with content that never changes, or with the ranges of
// it that were asked. A browser is told to store it, never to run it.
func serveContent(w http.ResponseWriter, r *http.Request, timeout time.Duration, content io.ReadSeeker, s served) error {
	h := w.Header()
	h.Set("Content-Type", s.contentType)
	h.Set("Content-Disposition", disposition(s.name))
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "default-src 'none'; sandbox")
	h.Set("Cache-Control", "private, no-cache")
	h.Set("ETag", `"`+s.etag+`"`)
	c := &contentWriter{ResponseWriter: w, control: http.NewResponseController(w), timeout: timeout}
	defer func() { _ = c.control.SetWriteDeadline(time.Time{}) }()
	http.ServeContent(c, r, "", s.modified, &steady{content, c})
	if c.failed == nil {
		return nil
	}
	if c.begun {
		panic(c.failed) // breaks the connection off: the client must not take a part for the whole
	}
	for _, name := range []string{"Content-Disposition", "Content-Security-Policy", "ETag", "Last-Modified", "Cache-Control", "Content-Length"} {
		h.Del(name)
	}
	return c.failed
}

// contentWriter turns the errors that http.ServeContent writes into ours.
type contentWriter struct {
	http.ResponseWriter
	control *http.ResponseController
	timeout time.Duration // of each write
	begun   bool
	failed  error
}

func (c *contentWriter) WriteHeader(status int) {
	switch {
	case status == http.StatusRequestedRangeNotSatisfiable:
		c.failed = &stint.Error{
			Kind: stint.RangeNotSatisfiable, Code: stint.CodeRangeNotSatisfiable, Param: "Range",
			Message: "The range lies outside the content.",
		}
	case status >= http.StatusInternalServerError:
		if c.failed == nil {
			c.failed = errors.New("serve content: it has no end to seek to")
		}
	default:
		c.begun = true
		c.ResponseWriter.WriteHeader(status)
	}
}

func (c *contentWriter) Write(p []byte) (int, error) {
	if c.failed != nil && !c.begun {
		return len(p), nil // the text of http.ServeContent's own error
	}
	c.begun = true
	_ = c.control.SetWriteDeadline(time.Now().Add(c.timeout))
	return c.ResponseWriter.Write(p)
}

// Unwrap lets http.ResponseController reach what is below.
func (c *contentWriter) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// steady notes an error of the content, which http.ServeContent swallows.
type steady struct {
	io.ReadSeeker
	w *contentWriter
}

func (s *steady) Read(p []byte) (int, error) {
	n, err := s.ReadSeeker.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		s.w.failed = fmt.Errorf("serve content: %w", err)
	}
	return n, err
}

// disposition names the file for a browser: plain ASCII, and beside it the
// name as it is (RFC 6266).
func disposition(name string) string {
	plain := strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' || strings.ContainsRune(`"\/;%`, r) {
			return '_'
		}
		return r
	}, name)
	d := `attachment; filename="` + plain + `"`
	if plain != name {
		d += "; filename*=UTF-8''" + strings.ReplaceAll(url.PathEscape(strings.ToValidUTF8(name, "_")), "'", "%27")
	}
	return d
}
