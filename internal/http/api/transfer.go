package api

import (
	"bufio"
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/artifacts"
	"github.com/stint-dev/stint/internal/auth"
	"github.com/stint-dev/stint/internal/files/treewire"
)

// needType refuses a body of another type.
func needType(h http.Header, want string) error {
	media, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	encoding := h.Get("Content-Encoding")
	if err == nil && media == want && (encoding == "" || strings.EqualFold(encoding, "identity")) {
		return nil
	}
	return &stint.Error{
		Kind: stint.KindUnsupportedMedia, Code: stint.CodeUnsupportedMediaType, Param: "Content-Type",
		Message: "Send the body as '" + want + "'.",
	}
}

// badForm says what is wrong with a small binary body.
func badForm(err error) error {
	if errors.Is(err, treewire.ErrMalformed) {
		return &stint.Error{Kind: stint.KindInvalid, Code: stint.CodeInvalidParameter, Param: "body", Message: "The body cannot be understood: " + err.Error() + ".", Cause: err}
	}
	return err
}

// missingChunks answers which of the named chunks the organisation lacks.
func (a *api) missingChunks(w http.ResponseWriter, r *http.Request, c *auth.Caller) error {
	if err := needType(r.Header, treewire.HashesType); err != nil {
		return err
	}
	asked, err := treewire.ReadHashes(r.Body)
	if err != nil {
		return badForm(err)
	}
	missing, err := a.c.Artifacts.MissingChunks(r.Context(), *c, asked)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", treewire.HashesType)
	w.Header()["Cache-Control"] = noStore
	_, _ = w.Write(treewire.AppendHashes(nil, missing))
	return nil
}

// putChunks stores chunks that a tree is going to name.
func (a *api) putChunks(w http.ResponseWriter, r *http.Request, c *auth.Caller) error {
	if err := needType(r.Header, treewire.FramesType); err != nil {
		return err
	}
	done, err := a.c.Artifacts.PutChunks(r.Context(), *c, r.Body)
	if err != nil {
		return err
	}
	jsonReply(http.StatusOK, done).write(w)
	return nil
}

// pushAny stores what the body brings as the next version: an archive, or a
// tree of chunks.
func (t treeAPI) pushAny(p *post) (*reply, error) {
	if needType(p.r.Header, treewire.TreeType) != nil {
		return t.push(p)
	}
	return t.pushAs(p, artifacts.WireTree)
}

// tree gives a version as a tree of chunks.
func (t treeAPI) tree(w http.ResponseWriter, r *http.Request, c *auth.Caller) error {
	tree, err := t.a.c.Artifacts.Content(r.Context(), c.OrgID, t.kind, r.PathValue("id"), r.PathValue("v"))
	if err != nil {
		return err
	}
	h := w.Header()
	tag := `"` + tree.Digest + `"`
	h.Set("ETag", tag)
	h.Set("Cache-Control", "private, no-cache")
	if matches(r.Header.Get("If-None-Match"), tag) {
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	return t.a.stream(w, r, treewire.TreeType, tree.WriteTree)
}

// matches tells whether If-None-Match names the tag.
func matches(header, tag string) bool {
	for part := range strings.SplitSeq(header, ",") {
		part = strings.TrimPrefix(strings.TrimSpace(part), "W/")
		if part == tag || part == "*" {
			return true
		}
	}
	return false
}

// chunks gives the selected chunks of a version.
func (t treeAPI) chunks(w http.ResponseWriter, r *http.Request, c *auth.Caller) error {
	tree, err := t.a.c.Artifacts.Content(r.Context(), c.OrgID, t.kind, r.PathValue("id"), r.PathValue("v"))
	if err != nil {
		return err
	}
	if err := needType(r.Header, treewire.SelectionType); err != nil {
		return err
	}
	selection, err := treewire.ReadSelection(r.Body)
	if err != nil {
		return badForm(err)
	}
	w.Header()["Cache-Control"] = noStore
	return t.a.stream(w, r, treewire.FramesType, func(ctx context.Context, w io.Writer) error {
		return tree.WriteChunks(ctx, selection, w)
	})
}

// stream answers with what write writes. When that fails before anything was
// sent, the answer is the error; after it the connection breaks off, as a part
// must not be taken for the whole.
func (a *api) stream(w http.ResponseWriter, r *http.Request, contentType string, write func(context.Context, io.Writer) error) error {
	paced := &pacedWriter{w: w, contentType: contentType}
	if r.Method == http.MethodHead {
		paced.begin()
		return nil
	}
	out := bufio.NewWriterSize(paced, 64<<10)
	err := write(r.Context(), out)
	if err == nil {
		err = out.Flush()
	}
	switch {
	case err == nil:
		return nil
	case !paced.begun:
		for _, name := range []string{"ETag", "Cache-Control"} {
			w.Header().Del(name)
		}
		return err
	case paced.failed || r.Context().Err() != nil:
		panic(http.ErrAbortHandler) // the reader has gone
	}
	panic(err)
}

// pacedWriter gives each write its time and begins the answer with the first.
type pacedWriter struct {
	w           http.ResponseWriter
	contentType string
	begun       bool
	failed      bool
}

func (p *pacedWriter) begin() {
	p.begun = true
	p.w.Header().Set("Content-Type", p.contentType)
	p.w.Header().Set("X-Content-Type-Options", "nosniff")
}

// Write implements io.Writer.
func (p *pacedWriter) Write(b []byte) (int, error) {
	if !p.begun {
		p.begin()
	}
	n, err := p.w.Write(b)
	p.failed = p.failed || err != nil
	return n, err
}
