package api

import (
	"bufio"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/stint-dev/stint"
)

// contentInfo describes immutable content.
type contentInfo struct {
	contentType string
	name        string // name of the file that a browser saves
	etag        string // without quotes
	modified    time.Time
	sum         []byte // SHA-256 of the whole content; nil if unknown
}

// serveContent responds with immutable content or the requested ranges of it. The
// headers of the response make a browser save the content instead of displaying it.
// If the content fails before anything was sent, serveContent returns the error.
// If it fails later, serveContent aborts the connection by a panic.
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

// writeStream responds with the output of write, of unknown length. For a HEAD
// request, it does not call write. If write fails before anything was sent,
// writeStream returns the error. If write fails later, writeStream aborts the
// connection by a panic, so that the client notices that the content is incomplete.
func writeStream(w http.ResponseWriter, r *http.Request, write func(context.Context, io.Writer) error) error {
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

// streamWriter records whether Write was called (begun) and whether a call failed.
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

// setUntrusted sets headers that prevent a browser from executing the content, which
// agents wrote.
func setUntrusted(h http.Header) {
	h.Set("Content-Security-Policy", "default-src 'none'; sandbox")
}

// deleteContentHeaders deletes the headers that describe the content. It is called
// before an error response is written instead.
func deleteContentHeaders(h http.Header) {
	for _, name := range []string{"Content-Disposition", "Content-Security-Policy", "ETag", "Last-Modified", "Cache-Control", "Content-Length", "Repr-Digest"} {
		h.Del(name)
	}
}

// contentWriter is the ResponseWriter for http.ServeContent. It does not send the
// error responses of http.ServeContent, but records an error in failed.
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
		return len(p), nil // drops the error message of http.ServeContent
	}
	c.begun = true
	return c.ResponseWriter.Write(p)
}

// Unwrap returns the underlying writer for http.ResponseController.
func (c *contentWriter) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// errorReader records read errors of the content in w.failed, because
// http.ServeContent ignores them.
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

// contentDisposition returns the value of the Content-Disposition header for a file
// name (RFC 6266). Characters that are not allowed in the plain form are replaced by
// an underscore; in this case the value also contains the name in UTF-8.
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
