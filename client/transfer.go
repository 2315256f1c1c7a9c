package client

import (
	"context"
	"crypto/rand"
	"io"
	"net/http"

	"github.com/stint-dev/stint"
)

// Media types of the chunk exchange, which docs/transfer.md describes.
const (
	typeTree   = "application/vnd.stint.tree+zstd"
	typeChunks = "application/vnd.stint.chunks"
	typeBytes  = "application/octet-stream"
)

// MissingChunks returns the given hashes for which the organisation's storage has
// no chunk, in the same order. hashes is a concatenation of at most 8192 SHA-256
// sums; so is the result.
func (c *Client) MissingChunks(ctx context.Context, hashes []byte) ([]byte, error) {
	res, err := c.retry(ctx, call{
		method: http.MethodPost, path: []string{"chunks", "missing"}, content: bytesContent(typeBytes, hashes), repeatable: true,
		header: http.Header{"Accept": {typeBytes}},
	})
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	return io.ReadAll(res.Body)
}

// SendChunks stores chunks for a later PushTree. Storing a chunk again has no effect.
func (c *Client) SendChunks(ctx context.Context, frames []byte) error {
	res, err := c.retry(ctx, call{method: http.MethodPost, path: []string{"chunks"}, content: bytesContent(typeChunks, frames), repeatable: true})
	if err != nil {
		return err
	}
	return res.Body.Close()
}

// PushTree stores a tree as the new version. It returns the same results as Push.
// If the server lacks chunks of the tree, it returns an *Error with the code
// chunks_missing.
func (t *FileSets) PushTree(ctx context.Context, id string, tree io.ReaderAt, size int64, o *PushOptions) (v *stint.FileSetVersion, added bool, err error) {
	post := t.pushCall(id, o)
	post.key = rand.Text()
	post.content = &content{typeTree, func() io.Reader { return io.NewSectionReader(tree, 0, size) }, size}
	return create[stint.FileSetVersion](ctx, t.c, post)
}

// OpenTree opens the tree of a version: its entries with the hashes of their chunks. The
// caller closes it.
func (t *FileSets) OpenTree(ctx context.Context, id, version string) (io.ReadCloser, error) {
	return t.c.open(ctx, call{
		method: http.MethodGet, path: t.path(id, "versions", orLatest(version), "tree"), header: http.Header{"Accept": {typeTree}},
	})
}

// OpenChunks opens the selected chunks of a version. The caller closes them.
func (t *FileSets) OpenChunks(ctx context.Context, id, version string, selection []byte) (io.ReadCloser, error) {
	return t.c.open(ctx, call{
		method: http.MethodPost, path: t.path(id, "versions", orLatest(version), "chunks"),
		content: bytesContent(typeBytes, selection), repeatable: true, header: http.Header{"Accept": {typeChunks}},
	})
}
