package client

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/stint-dev/stint"
)

// The media types of the exchange of chunks. docs/transfer.md describes them.
const (
	typeTree   = "application/vnd.stint.tree+zstd"
	typeChunks = "application/vnd.stint.chunks"
	typeBytes  = "application/octet-stream"
)

// rawBody is a body that is no JSON. It is read anew for each attempt.
type rawBody struct {
	contentType string
	in          io.ReaderAt
	size        int64
}

func rawBytes(contentType string, b []byte) *rawBody {
	return &rawBody{contentType, bytes.NewReader(b), int64(len(b))}
}

// MissingChunks asks which chunks the organisation's storage lacks. Names are
// SHA-256 sums laid end to end, at most 8192; so is the answer, in the order
// of the question.
func (c *Client) MissingChunks(ctx context.Context, names []byte) ([]byte, error) {
	_, missing, err := c.whole(ctx, call{
		method: http.MethodPost, path: []string{"chunks", "missing"}, raw: rawBytes(typeBytes, names), repeat: true,
		header: http.Header{"Accept": {typeBytes}},
	}, int64(len(names)))
	return missing, err
}

// SendChunks stores chunks, which wait there for a tree that names them. It
// may be repeated.
func (c *Client) SendChunks(ctx context.Context, frames []byte) error {
	_, _, err := c.whole(ctx, call{method: http.MethodPost, path: []string{"chunks"}, raw: rawBytes(typeChunks, frames), repeat: true}, maxAnswer)
	return err
}

// PushTree stores a tree, whose chunks the server has, as the new version. It
// answers as Push does; chunks that the server lacks are an *Error with the
// code chunks_missing. ContentType of the options counts for nothing.
func (t *FileSets) PushTree(ctx context.Context, id string, tree io.ReaderAt, size int64, o *PushOptions) (v *stint.FileSetVersion, added bool, err error) {
	if o == nil {
		o = &PushOptions{}
	}
	q := url.Values{}
	set(q, "message", o.Message)
	header := http.Header{"Expect": {"100-continue"}}
	if o.IfMatch != "" {
		header.Set("If-Match", `"`+o.IfMatch+`"`)
	}
	status, body, err := t.c.whole(ctx, call{
		method: http.MethodPost, path: t.path(id, "versions"), query: q, header: header, key: newKey(),
		raw: &rawBody{typeTree, tree, size},
	}, maxAnswer)
	if err != nil {
		return nil, false, err
	}
	v = new(stint.FileSetVersion)
	if err := json.Unmarshal(body, v); err != nil {
		return nil, false, fmt.Errorf("read the answer of the push: %w", err)
	}
	return v, status == http.StatusCreated, nil
}

// OpenTree reads the tree of a version: what it holds and of which chunks. The
// caller closes it.
func (t *FileSets) OpenTree(ctx context.Context, id, version string) (io.ReadCloser, error) {
	return t.c.open(ctx, call{
		method: http.MethodGet, path: t.path(id, "versions", orLatest(version), "tree"), header: http.Header{"Accept": {typeTree}},
	})
}

// OpenChunks reads chunks of a version, selected by their numbers in it. The
// caller closes them; what has broken off may be asked for again.
func (t *FileSets) OpenChunks(ctx context.Context, id, version string, selection []byte) (io.ReadCloser, error) {
	return t.c.open(ctx, call{
		method: http.MethodPost, path: t.path(id, "versions", orLatest(version), "chunks"),
		raw: rawBytes(typeBytes, selection), repeat: true, header: http.Header{"Accept": {typeChunks}},
	})
}

// whole sends the call, which may be repeated, until its answer has arrived to
// the end.
func (c *Client) whole(ctx context.Context, r call, limit int64) (status int, body []byte, err error) {
	for attempt := 1; ; attempt++ {
		res, err := c.retry(ctx, r)
		if err != nil {
			return 0, nil, err
		}
		body, err = io.ReadAll(io.LimitReader(res.Body, limit))
		res.Body.Close()
		if err == nil {
			return res.StatusCode, body, nil
		}
		if attempt >= c.attempts || ctx.Err() != nil || c.pause(ctx, attempt, err) != nil {
			return 0, nil, fmt.Errorf("read the answer of %s %s: %w", r.method, res.Request.URL.Path, err)
		}
	}
}

// open sends the call for a body that is no JSON.
func (c *Client) open(ctx context.Context, r call) (io.ReadCloser, error) {
	res, err := c.retry(ctx, r)
	if err != nil {
		return nil, err
	}
	if res.StatusCode != http.StatusOK {
		return nil, errorOf(res)
	}
	return res.Body, nil
}
