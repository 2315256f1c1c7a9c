package api

import (
	"io"
	"net/http"
	"strconv"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/auth"
	"github.com/stint-dev/stint/internal/paging"
)

// The formats of a diff.
const (
	formatJSON    = "json"
	formatUnified = "unified"
)

// diff responds with a page of the changes between two versions, or with a unified
// diff of one file.
func (s fileSetAPI) diff(w http.ResponseWriter, r *http.Request, c *auth.Caller) error {
	q := queryOf(r)
	from, given := q.text("from")
	if !given {
		q.fail(stint.MissingParam("from", "'from' is required: the version to compare with."))
	}
	to, _ := q.text("to")
	path, oneFile := q.text("path")
	defaultFormat := formatJSON
	if accept := r.Header["Accept"]; quality(accept, "text", "x-diff") > quality(accept, "application", "json") {
		defaultFormat = formatUnified
	}
	switch format := q.choice("format", defaultFormat, formatJSON, formatUnified); {
	case format == formatUnified && !oneFile:
		q.fail(stint.MissingParam("path", "'path' is required: the file to compare line by line."))
	case format == formatJSON && oneFile:
		q.fail(stint.InvalidParam("format", "The diff of one file is available only as 'format=unified'. Add it, or omit 'path'."))
	}
	w.Header().Add("Vary", "Accept")
	if oneFile {
		return s.textDiff(w, r, c, q, from, to, path)
	}
	page, err := s.changes(r, c, q, from, to)
	if err != nil {
		return err
	}
	jsonResponse(http.StatusOK, page).write(w)
	return nil
}

// changes returns a page of the changes, sorted by path.
func (s fileSetAPI) changes(r *http.Request, c *auth.Caller, q *query, from, to string) (any, error) {
	l, limit := s.a.listOf(r, *c, q, "from", "to", "format"), q.limit()
	versions, after, err := s.filePosition(r, *c, l, from, to)
	if err != nil {
		return nil, err
	}
	changes, more, err := s.a.c.Artifacts.Diff(r.Context(), c.OrgID, s.kind, r.PathValue("id"), versions[0], versions[1], after, limit)
	if err != nil {
		return nil, err
	}
	return paging.Encode(l.List, changes, more, func(last *stint.FileChange) []byte {
		return encodeFilePosition(versions, last.Path)
	})
}

// textDiff responds with the unified diff of a file. The content of the file is
// untrusted, so the headers prevent a browser from displaying the diff as a page.
func (s fileSetAPI) textDiff(w http.ResponseWriter, r *http.Request, c *auth.Caller, q *query, from, to, path string) error {
	if q.err != nil {
		return q.err
	}
	text, err := s.a.c.Artifacts.TextDiff(r.Context(), c.OrgID, s.kind, r.PathValue("id"), from, to, path)
	if err != nil {
		return err
	}
	h := w.Header()
	h.Set("Content-Type", "text/x-diff")
	setUntrusted(h)
	h["Cache-Control"] = noStore
	h.Set("Content-Length", strconv.Itoa(len(text)))
	w.WriteHeader(http.StatusOK)
	_, _ = io.WriteString(w, text)
	return nil
}
