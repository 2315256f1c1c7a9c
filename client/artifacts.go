package client

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/stint-dev/stint"
)

// FileSets manages artifacts or volumes, which are versioned folders. Parameters
// named version are an ID, a number ("3", "v3"), or "latest". Methods that read a
// version also accept "" for the latest.
type FileSets struct {
	c    *Client
	kind stint.FileSetKind
}

func (t *FileSets) path(segments ...string) []string {
	return append([]string{string(t.kind) + "s"}, segments...)
}

// Create creates an artifact or volume without a version. If the name exists, it
// returns an *Error with the code resource_already_exists.
func (t *FileSets) Create(ctx context.Context, name string) (*stint.FileSet, error) {
	body := map[string]string{"name": name}
	return fetch[stint.FileSet](ctx, t.c, call{method: http.MethodPost, path: t.path(), body: body, key: rand.Text()})
}

// Get returns an artifact or volume by its ID, with its current version.
func (t *FileSets) Get(ctx context.Context, id string) (*stint.FileSetDetail, error) {
	return get[stint.FileSetDetail](ctx, t.c, t.path(id)...)
}

// Find returns an artifact or volume by its name or ID. If it does not exist, it returns an
// *Error with the code resource_not_found.
func (t *FileSets) Find(ctx context.Context, nameOrID string) (*stint.FileSet, error) {
	if stint.IsID(t.kind.Prefix(), nameOrID) {
		detail, err := t.Get(ctx, nameOrID)
		if err != nil {
			return nil, err
		}
		return &detail.FileSet, nil
	}
	for fileSet, err := range list[stint.FileSet](ctx, t.c, url.Values{"name": {nameOrID}}, 0, t.path()...) {
		if err != nil {
			return nil, err
		}
		if fileSet.Name == nameOrID {
			return &fileSet, nil
		}
	}
	return nil, notFound(string(t.kind), nameOrID)
}

// List iterates over the artifacts or volumes, newest first, and ends after an error.
func (t *FileSets) List(ctx context.Context) iter.Seq2[stint.FileSet, error] {
	return list[stint.FileSet](ctx, t.c, nil, 0, t.path()...)
}

// Page returns one page of the artifacts or volumes, newest first.
func (t *FileSets) Page(ctx context.Context, o *PageOptions) (*stint.Page[stint.FileSet], error) {
	return page[stint.FileSet](ctx, t.c, nil, o, t.path()...)
}

// Delete deletes an artifact or volume with its versions. A version that a checkpoint
// refers to stays readable through the checkpoint.
func (t *FileSets) Delete(ctx context.Context, id string) error {
	return remove(ctx, t.c, t.path(id)...)
}

// PushOptions describes a new version. A nil *PushOptions means a tar.gz archive
// without a message.
type PushOptions struct {
	Message string
	// ContentType of the archive: application/gzip (tar.gz, the default),
	// application/x-tar, or application/zstd. PushTree ignores it.
	ContentType string
	// IfMatch is the ID that the current version must have; empty accepts any. If
	// another version is current, the push returns an *Error with the code
	// version_conflict.
	IfMatch string
}

// Push stores an archive as the new version. If it has the same content as the current
// version, Push returns that one and added is false. Push reads the archive once and
// does not repeat the request.
func (t *FileSets) Push(ctx context.Context, id string, archive io.Reader, o *PushOptions) (v *stint.FileSetVersion, added bool, err error) {
	mediaType := "application/gzip"
	if o != nil && o.ContentType != "" {
		mediaType = o.ContentType
	}
	source := &sourceReader{r: archive}
	post := t.pushCall(id, o)
	post.content = &content{mediaType, func() io.Reader { return source }, -1}
	v, added, err = create[stint.FileSetVersion](ctx, t.c, post)
	if failed := source.err.Load(); failed != nil && err != nil {
		err = *failed // the cause of the failed request
	}
	return v, added, err
}

// pushCall returns the request that stores a new version, without its content. The
// client waits until the server accepts the content ("Expect"), because an error
// response could be lost if the server closed the connection during the transfer.
func (t *FileSets) pushCall(id string, o *PushOptions) call {
	post := call{
		method: http.MethodPost, path: t.path(id, "versions"),
		query: url.Values{}, header: http.Header{"Expect": {"100-continue"}},
	}
	if o == nil {
		return post
	}
	set(post.query, "message", o.Message)
	if o.IfMatch != "" {
		post.header.Set("If-Match", `"`+o.IfMatch+`"`)
	}
	return post
}

// sourceReader records an error of a reader other than io.EOF. Access is atomic, because
// the transport may still read the request body after the response has arrived.
type sourceReader struct {
	r   io.Reader
	err atomic.Pointer[error]
}

func (s *sourceReader) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		s.err.Store(&err)
	}
	return n, err
}

// Versions iterates over the versions of an artifact or volume, newest first.
func (t *FileSets) Versions(ctx context.Context, id string) iter.Seq2[stint.FileSetVersion, error] {
	return list[stint.FileSetVersion](ctx, t.c, nil, 0, t.path(id, "versions")...)
}

// Version returns a version.
func (t *FileSets) Version(ctx context.Context, id, version string) (*stint.FileSetVersion, error) {
	return get[stint.FileSetVersion](ctx, t.c, t.path(id, "versions", orLatest(version))...)
}

// Promote makes a version the current one and returns it. If ifMatch is not empty and is
// not the ID of the current version, Promote returns an *Error with the code
// version_conflict.
func (t *FileSets) Promote(ctx context.Context, id, version, ifMatch string) (*stint.FileSetVersion, error) {
	post := call{method: http.MethodPost, path: t.path(id, "versions", version, "promote"), key: rand.Text(), header: http.Header{}}
	if ifMatch != "" {
		post.header.Set("If-Match", `"`+ifMatch+`"`)
	}
	return fetch[stint.FileSetVersion](ctx, t.c, post)
}

// Files iterates over the entries of a version in path order.
func (t *FileSets) Files(ctx context.Context, id, version string) iter.Seq2[stint.FileEntry, error] {
	return list[stint.FileEntry](ctx, t.c, nil, 0, t.path(id, "versions", orLatest(version), "files")...)
}

// ReadFile opens a file of a version. The caller closes it.
func (t *FileSets) ReadFile(ctx context.Context, id, version, path string) (io.ReadCloser, error) {
	return t.c.open(ctx, call{method: http.MethodGet, path: t.filePath(id, version, path), header: http.Header{"Accept": {"*/*"}}})
}

func (t *FileSets) filePath(id, version, path string) []string {
	return append(t.path(id, "versions", orLatest(version), "files"), strings.Split(path, "/")...)
}

// ReadFilePart returns up to length bytes of a file of a version from offset, and the
// size of the file. If offset is not within the file, it returns an *Error with the
// code range_not_satisfiable; the offset 0 of an empty file is permitted.
func (t *FileSets) ReadFilePart(ctx context.Context, id, version, path string, offset, length int64) (part []byte, size int64, err error) {
	header := http.Header{"Accept": {"*/*"}, "Range": {fmt.Sprintf("bytes=%d-%d", offset, offset+length-1)}}
	res, err := t.c.retry(ctx, call{method: http.MethodGet, path: t.filePath(id, version, path), header: header, stream: true})
	if err != nil {
		return nil, 0, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusPartialContent { // the whole file: it is empty, or ranges are not supported
		if _, err := io.CopyN(io.Discard, res.Body, offset); errors.Is(err, io.EOF) {
			return nil, 0, &Error{
				Status: http.StatusRequestedRangeNotSatisfiable, Type: "invalid_request_error", Code: stint.CodeRangeNotSatisfiable,
				Message: fmt.Sprintf("The offset %d is beyond the end of '%s'.", offset, path),
			}
		} else if err != nil {
			return nil, 0, fmt.Errorf("read '%s': %w", path, err)
		}
		size = res.ContentLength
	} else if _, total, ok := strings.Cut(res.Header.Get("Content-Range"), "/"); ok {
		if size, err = strconv.ParseInt(total, 10, 64); err != nil {
			return nil, 0, fmt.Errorf("read '%s': the server sent '%s' as its size", path, total)
		}
	}
	if part, err = io.ReadAll(io.LimitReader(res.Body, length)); err != nil {
		return nil, 0, fmt.Errorf("read '%s': %w", path, err)
	}
	return part, size, nil
}

// FilesPage returns one page of the entries of a version in path order, restricted to
// paths that begin with prefix.
func (t *FileSets) FilesPage(ctx context.Context, id, version, prefix string, o *PageOptions) (*stint.Page[stint.FileEntry], error) {
	q := url.Values{}
	set(q, "prefix", prefix)
	return page[stint.FileEntry](ctx, t.c, q, o, t.path(id, "versions", orLatest(version), "files")...)
}

// DiffFile opens a unified diff of one file in two versions. If the path is a
// folder or a file of more than 1 MiB, it returns an *Error with the code
// invalid_parameter. The caller closes the diff.
func (t *FileSets) DiffFile(ctx context.Context, id, from, to, path string) (io.ReadCloser, error) {
	q := url.Values{"path": {path}, "format": {"unified"}}
	set(q, "from", from)
	set(q, "to", to)
	return t.c.open(ctx, call{method: http.MethodGet, path: t.path(id, "diff"), query: q, header: http.Header{"Accept": {"text/x-diff"}}})
}

// Diff iterates over the changes between two versions in path order. A renamed file
// is one change, unless the versions differ in very many files.
func (t *FileSets) Diff(ctx context.Context, id, from, to string) iter.Seq2[stint.FileChange, error] {
	q := url.Values{}
	set(q, "from", from)
	set(q, "to", to)
	return list[stint.FileChange](ctx, t.c, q, 0, t.path(id, "diff")...)
}

func orLatest(version string) string {
	if version == "" {
		return "latest"
	}
	return version
}
