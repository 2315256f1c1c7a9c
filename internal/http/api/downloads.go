package api

import (
	"bufio"
	"context"
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

// download redirects the client to the archive. The address does not need a token and
// is valid for auth.LinkLifetime. It belongs to the API, or to the bucket if that
// contains the whole archive.
func (s fileSetAPI) download(w http.ResponseWriter, r *http.Request, c *auth.Caller) error {
	q := queryOf(r)
	reference, given := q.text("versionId")
	if given && reference == "" {
		q.fail(stint.NotFound(string(s.kind)+" version", reference))
	}
	format := files.Format(q.choice("format", string(acceptedFormat(r.Header["Accept"])), formatNames()...))
	if q.err != nil {
		return q.err
	}
	id := r.PathValue("id")
	archive, err := s.a.c.Artifacts.Archive(r.Context(), c.OrgID, s.kind, id, reference, format)
	if err != nil {
		return err
	}
	address, direct, err := archive.DirectLink(r.Context(), auth.LinkLifetime)
	if err != nil {
		return err
	}
	if !direct {
		link := auth.Link{OrgID: c.OrgID, Kind: s.kind, FileSetID: id, VersionID: archive.Version.ID}
		if format != files.TarGzip {
			link.Format = string(format)
		}
		signed, err := s.a.c.Auth.SignLink(link)
		if err != nil {
			return err
		}
		address = s.a.baseURL(r) + "/v1/downloads/" + signed
	}
	(&response{status: http.StatusFound, header: map[string]string{"Location": address, "Vary": "Accept"}}).write(w)
	return nil
}

// baseURL returns the prefix of addresses in responses.
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

// serveDownload serves the archive of a link. It ignores an Authorization header,
// which clients repeat after a redirect.
func (a *api) serveDownload(w http.ResponseWriter, r *http.Request, _ *auth.Caller) error {
	link, ok := a.c.Auth.VerifyLink(r.PathValue("link"))
	if !ok {
		return &stint.Error{
			Kind: stint.KindForbidden, Code: stint.CodeInsufficientScope,
			Message: "This download link is invalid or has expired. Request a new one.",
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
		return serveZstd(w, r, archive)
	}
	return serveArchive(w, r, archive)
}

// serveArchive serves an archive whose length is known, or ranges of it.
func serveArchive(w http.ResponseWriter, r *http.Request, archive *artifacts.VersionArchive) error {
	content, err := archive.Open(r.Context())
	if err != nil {
		return err
	}
	defer func() { _ = content.Close() }()
	sum, known, err := archive.Sum(r.Context(), content.Size(), wantsDigest(r.Header))
	if err != nil {
		return err
	}
	s := contentInfo{
		contentType: mediaType(archive.Format), name: archive.Name(),
		etag: archiveTag(archive), modified: archive.Version.CreatedAt.Time,
	}
	if known {
		s.sum = sum[:]
	}
	if r.Method == http.MethodGet && r.Header.Get("Range") == "" && r.Header.Get("If-None-Match") == "" {
		archive.CountDownload(content.Size())
	}
	return serveContent(w, r, content, s)
}

// file serves one file of a version.
func (s fileSetAPI) file(w http.ResponseWriter, r *http.Request, c *auth.Caller) error {
	file := r.PathValue("path")
	f, entry, err := s.a.c.Artifacts.Open(r.Context(), c.OrgID, s.kind, r.PathValue("id"), r.PathValue("v"), file)
	if err != nil {
		return err
	}
	defer f.Close()
	sum, err := hex.DecodeString(entry.SHA256)
	if err != nil {
		return fmt.Errorf("decode the hash of a file: %w", err)
	}
	return serveContent(w, r, f, contentInfo{
		contentType: "application/octet-stream", name: path.Base(file),
		etag: entry.SHA256, modified: entry.ModifiedAt.Time, sum: sum,
	})
}

// contentInfo describes immutable content.
type contentInfo struct {
	contentType string
	name        string // of the file that a browser saves
	etag        string // without quotes
	modified    time.Time
	sum         []byte // SHA-256 of the whole content; nil if unknown
}

// serveContent responds with immutable content or the requested ranges of it. Its
// headers make a browser save it instead of displaying it.
func serveContent(w http.ResponseWriter, r *http.Request, content io.ReadSeeker, s contentInfo) error {
	h := w.Header()
	h.Set("Content-Type", s.contentType)
	h.Set("Content-Disposition", contentDisposition(s.name))
	setUntrusted(h)
	h["Cache-Control"] = privateNoCache
	h.Set("ETag", `"`+s.etag+`"`)
	if s.sum != nil {
		h.Set("Repr-Digest", "sha-256=:"+base64.StdEncoding.EncodeToString(s.sum)+":")
	}
	c := &contentWriter{ResponseWriter: w}
	http.ServeContent(c, r, "", s.modified, &errorReader{content, c})
	if c.failed == nil {
		return nil
	}
	if c.begun && errors.Is(c.failed, r.Context().Err()) {
		panic(http.ErrAbortHandler) // the client has disconnected
	}
	if c.begun {
		panic(c.failed) // aborts the connection, so that the client notices that the content is incomplete
	}
	deleteContentHeaders(h)
	return c.failed
}

// writeStream responds with the output of write, whose length is unknown. If write
// fails before anything was sent, writeStream returns the error. Otherwise it aborts
// the connection, so that the client notices that the content is incomplete.
func writeStream(w http.ResponseWriter, r *http.Request, write func(context.Context, io.Writer) error) error {
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if r.Method == http.MethodHead {
		w.WriteHeader(http.StatusOK)
		return nil
	}
	s := &streamWriter{w: w}
	buffered := bufio.NewWriterSize(s, 64<<10)
	err := write(r.Context(), buffered)
	if err == nil {
		err = buffered.Flush()
	}
	switch {
	case err == nil:
		return nil
	case !s.begun:
		deleteContentHeaders(w.Header())
		return err
	case s.failed || r.Context().Err() != nil:
		panic(http.ErrAbortHandler) // the client has disconnected
	}
	panic(fmt.Errorf("serve content: %w", err))
}

// streamWriter records whether a write was tried and whether one failed.
type streamWriter struct {
	w             io.Writer
	begun, failed bool
}

func (s *streamWriter) Write(p []byte) (int, error) {
	s.begun = true
	n, err := s.w.Write(p)
	s.failed = s.failed || err != nil
	return n, err
}

// setUntrusted sets headers that prevent a browser from executing content of agents.
func setUntrusted(h http.Header) {
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "default-src 'none'; sandbox")
}

// deleteContentHeaders deletes the headers of content before an error response.
func deleteContentHeaders(h http.Header) {
	for _, name := range []string{"Content-Disposition", "Content-Security-Policy", "ETag", "Last-Modified", "Cache-Control", "Content-Length", "Repr-Digest"} {
		h.Del(name)
	}
}

// contentWriter records the errors that http.ServeContent writes, instead of sending
// them.
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
			Message: "The range is outside the content.",
		}
	case status >= http.StatusInternalServerError:
		if c.failed == nil {
			c.failed = errors.New("serve content: seek failed")
		}
	default:
		c.begun = true
		c.ResponseWriter.WriteHeader(status)
	}
}

func (c *contentWriter) Write(p []byte) (int, error) {
	if c.failed != nil && !c.begun {
		return len(p), nil // the message of http.ServeContent
	}
	c.begun = true
	return c.ResponseWriter.Write(p)
}

// Unwrap returns the underlying writer for http.ResponseController.
func (c *contentWriter) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// errorReader records an error of the content, which http.ServeContent ignores.
type errorReader struct {
	io.ReadSeeker
	w *contentWriter
}

func (s *errorReader) Read(p []byte) (int, error) {
	n, err := s.ReadSeeker.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		s.w.failed = fmt.Errorf("serve content: %w", err)
	}
	return n, err
}

// contentDisposition returns a header with the name of the file, in ASCII and, if
// that differs, also in UTF-8 (RFC 6266).
func contentDisposition(name string) string {
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
