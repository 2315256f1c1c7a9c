package api

import (
	"context"
	"errors"
	"io"
	"net/http"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/auth"
	"github.com/stint-dev/stint/internal/files/treewire"
)

// requireMediaType returns an error if hasMediaType returns false.
func requireMediaType(h http.Header, want string) error {
	if hasMediaType(h, want) {
		return nil
	}
	return &stint.Error{
		Kind: stint.KindUnsupportedMedia, Code: stint.CodeUnsupportedMediaType, Param: "Content-Type",
		Message: "Send the body as '" + want + "'.",
	}
}

// malformedBody returns a *stint.Error if err wraps treewire.ErrMalformed. It returns
// any other error unchanged.
func malformedBody(err error) error {
	if errors.Is(err, treewire.ErrMalformed) {
		return &stint.Error{Kind: stint.KindInvalid, Code: stint.CodeInvalidParameter, Param: "body", Message: "The body is malformed: " + err.Error() + ".", Cause: err}
	}
	return err
}

// missingChunks responds with the hashes in the body for which the organisation has
// no chunk.
func (a *api) missingChunks(w http.ResponseWriter, r *http.Request, c *auth.Caller) error {
	if err := requireMediaType(r.Header, treewire.HashesType); err != nil {
		return err
	}
	hashes, err := treewire.ReadHashes(r.Body)
	if err != nil {
		return malformedBody(err)
	}
	missing, err := a.c.Artifacts.MissingChunks(r.Context(), *c, hashes)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", treewire.HashesType)
	w.Header()["Cache-Control"] = noStore
	_, _ = w.Write(treewire.AppendHashes(nil, missing))
	return nil
}

// putChunks stores the chunks in the body. The client then pushes a tree that refers
// to them.
func (a *api) putChunks(w http.ResponseWriter, r *http.Request, c *auth.Caller) error {
	if err := requireMediaType(r.Header, treewire.FramesType); err != nil {
		return err
	}
	stored, err := a.c.Artifacts.PutChunks(r.Context(), *c, r.Body)
	if err != nil {
		return err
	}
	jsonResponse(http.StatusOK, stored).write(w)
	return nil
}

// tree responds with the entries of a version and the hashes of their chunks.
func (s fileSetAPI) tree(w http.ResponseWriter, r *http.Request, c *auth.Caller) error {
	tree, err := s.a.c.Artifacts.Content(r.Context(), c.OrgID, s.kind, r.PathValue("id"), r.PathValue("v"))
	if err != nil {
		return err
	}
	if notModified(w, r, `"`+tree.Digest+`"`) {
		return nil
	}
	w.Header().Set("Content-Type", treewire.TreeType)
	return writeStream(w, r, tree.WriteTree)
}

// chunks responds with the chunks of a version that the body selects.
func (s fileSetAPI) chunks(w http.ResponseWriter, r *http.Request, c *auth.Caller) error {
	tree, err := s.a.c.Artifacts.Content(r.Context(), c.OrgID, s.kind, r.PathValue("id"), r.PathValue("v"))
	if err != nil {
		return err
	}
	if err := requireMediaType(r.Header, treewire.SelectionType); err != nil {
		return err
	}
	selection, err := treewire.ReadSelection(r.Body)
	if err != nil {
		return malformedBody(err)
	}
	h := w.Header()
	h["Cache-Control"] = noStore
	h.Set("Content-Type", treewire.FramesType)
	return writeStream(w, r, func(ctx context.Context, w io.Writer) error {
		return tree.WriteChunks(ctx, selection, w)
	})
}
