package api

import (
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/artifacts"
	"github.com/stint-dev/stint/internal/auth"
	"github.com/stint-dev/stint/internal/files"
)

// download sends the client to an address from which the archive can be read
// without a token, for an hour: ours, or that of a store which has it whole.
func (t treeAPI) download(w http.ResponseWriter, r *http.Request, c *auth.Caller) error {
	q := queryOf(r)
	spec, given := q.text("versionId")
	if given && spec == "" {
		q.fail(stint.NotFound(string(t.kind)+" version", spec))
	}
	format := files.Format(q.choice("format", string(acceptedFormat(r.Header["Accept"])), formatNames()...))
	if q.err != nil {
		return q.err
	}
	id := r.PathValue("id")
	archive, err := t.a.c.Artifacts.Archive(r.Context(), c.OrgID, t.kind, id, spec, format)
	if err != nil {
		return err
	}
	address, direct, err := archive.DirectLink(r.Context(), auth.LinkLifetime)
	if err != nil {
		return err
	}
	if !direct {
		link := auth.Link{OrgID: c.OrgID, Kind: t.kind, FileSetID: id, VersionID: archive.Version.ID}
		if format != files.TarGzip {
			link.Format = string(format)
		}
		signed, err := t.a.c.Auth.SignLink(link)
		if err != nil {
			return err
		}
		address = t.a.baseURL(r) + "/v1/downloads/" + signed
	}
	answer := &reply{status: http.StatusFound}
	answer.set("Location", address)
	answer.set("Vary", "Accept")
	answer.write(w)
	return nil
}

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
			Kind: stint.KindForbidden, Code: stint.CodeInsufficientScope,
			Message: "This download link is wrong or has expired. Ask for a new one.",
		}
	}
	format := files.TarGzip
	if link.Format != "" {
		format = files.Format(link.Format)
	}
	archive, err := a.c.Artifacts.Archive(r.Context(), link.OrgID, link.Kind, link.FileSetID, link.VersionID, format)
	if err != nil {
		return err
	}
	if format == files.TarZstd {
		return a.serveZstd(w, r, archive)
	}
	return a.serveArchive(w, r, archive)
}

// serveArchive serves an archive whose length is known, whole or in parts.
func (a *api) serveArchive(w http.ResponseWriter, r *http.Request, archive *artifacts.VersionArchive) error {
	from, err := archive.Open(r.Context())
	if err != nil {
		return err
	}
	defer func() { _ = from.Close() }()
	sum, known, err := archive.Sum(r.Context(), from.Size(), wantsDigest(r.Header))
	if err != nil {
		return err
	}
	s := served{
		contentType: mediaTypes[archive.Format], name: archive.Name(),
		etag: archiveTag(archive), modified: archive.Version.CreatedAt.Time,
	}
	if known {
		s.sum = sum[:]
	}
	if r.Method == http.MethodGet && r.Header.Get("Range") == "" && r.Header.Get("If-None-Match") == "" {
		archive.CountDownload(from.Size())
	}
	return serveContent(w, r, from, s)
}

// file serves one file of a version.
func (t treeAPI) file(w http.ResponseWriter, r *http.Request, c *auth.Caller) error {
	asked := r.PathValue("path")
	f, entry, err := t.a.c.Artifacts.Open(r.Context(), c.OrgID, t.kind, r.PathValue("id"), r.PathValue("v"), asked)
	if err != nil {
		return err
	}
	defer f.Close()
	sum, err := hex.DecodeString(entry.SHA256)
	if err != nil {
		return fmt.Errorf("the hash of a file: %w", err)
	}
	return serveContent(w, r, f, served{
		contentType: "application/octet-stream", name: path.Base(asked),
		etag: entry.SHA256, modified: entry.ModifiedAt.Time, sum: sum,
	})
}

// served says how content is to be shown.
type served struct {
	contentType string
	name        string // under which a browser stores it
	etag        string // without quotes
	modified    time.Time
	sum         []byte // SHA-256 of the whole; nil where it is not known
}

// serveContent answers with content that never changes, or with the ranges of
// it that were asked. A browser is told to store it, never to run it.
func serveContent(w http.ResponseWriter, r *http.Request, content io.ReadSeeker, s served) error {
	h := w.Header()
	h.Set("Content-Type", s.contentType)
	h.Set("Content-Disposition", disposition(s.name))
	guard(h)
	h.Set("Cache-Control", "private, no-cache")
	h.Set("ETag", `"`+s.etag+`"`)
	if s.sum != nil {
		h.Set("Repr-Digest", "sha-256=:"+base64.StdEncoding.EncodeToString(s.sum)+":")
	}
	c := &contentWriter{ResponseWriter: w}
	http.ServeContent(c, r, "", s.modified, &steady{content, c})
	if c.failed == nil {
		return nil
	}
	if c.begun && errors.Is(c.failed, r.Context().Err()) {
		panic(http.ErrAbortHandler) // the client has disconnected
	}
	if c.begun {
		panic(c.failed) // breaks the connection off: the client must not take a part for the whole
	}
	unsay(h)
	return c.failed
}

// guard keeps a browser from running what agents made.
func guard(h http.Header) {
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "default-src 'none'; sandbox")
}

// unsay takes back what was said of content that an error takes the place of.
func unsay(h http.Header) {
	for _, name := range []string{"Content-Disposition", "Content-Security-Policy", "ETag", "Last-Modified", "Cache-Control", "Content-Length", "Repr-Digest"} {
		h.Del(name)
	}
}

// contentWriter turns the errors that http.ServeContent writes into ours.
type contentWriter struct {
	http.ResponseWriter
	begun  bool
	failed error
}

func (c *contentWriter) WriteHeader(status int) {
	switch {
	case status == http.StatusRequestedRangeNotSatisfiable:
		c.failed = &stint.Error{
			Kind: stint.KindRangeNotSatisfiable, Code: stint.CodeRangeNotSatisfiable, Param: "Range",
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
