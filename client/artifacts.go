package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"

	"github.com/stint-dev/stint"
)

// FileSets keeps artifacts or volumes: versioned folders of files. Wherever a
// version is asked for, its ID, its number ("3", "v3") or "latest" will do.
type FileSets struct {
	c    *Client
	kind stint.FileSetKind
}

// Kind distinguishes artifacts and volumes.
func (t *FileSets) Kind() stint.FileSetKind { return t.kind }

func (t *FileSets) path(segments ...string) []string {
	return append([]string{string(t.kind) + "s"}, segments...)
}

// Create makes an empty container. A name that exists is an *Error with the
// code resource_already_exists.
func (t *FileSets) Create(ctx context.Context, name string) (*stint.FileSet, error) {
	tree := new(stint.FileSet)
	body := map[string]string{"name": name}
	if err := t.c.do(ctx, call{method: http.MethodPost, path: t.path(), body: body, key: newKey()}, tree); err != nil {
		return nil, err
	}
	tree.Kind = t.kind
	return tree, nil
}

// Get reads one container by its ID, with its current version.
func (t *FileSets) Get(ctx context.Context, id string) (*stint.FileSetDetail, error) {
	detail, err := get[*stint.FileSetDetail](ctx, t.c, t.path(id)...)
	if err != nil {
		return nil, err
	}
	detail.Kind = t.kind
	return detail, nil
}

// Find reads one container by its name or its ID. One that does not exist is
// an *Error with the code resource_not_found.
func (t *FileSets) Find(ctx context.Context, nameOrID string) (*stint.FileSet, error) {
	if stint.IsID(t.kind.Prefix(), nameOrID) {
		detail, err := t.Get(ctx, nameOrID)
		if err != nil {
			return nil, err
		}
		return &detail.FileSet, nil
	}
	for tree, err := range list[stint.FileSet](ctx, t.c, url.Values{"name": {nameOrID}}, 0, t.path()...) {
		if err != nil {
			return nil, err
		}
		if tree.Name == nameOrID {
			tree.Kind = t.kind
			return &tree, nil
		}
	}
	return nil, noSuch(string(t.kind), nameOrID)
}

// List walks the containers, newest first. An error ends the walk.
func (t *FileSets) List(ctx context.Context) iter.Seq2[stint.FileSet, error] {
	return func(yield func(stint.FileSet, error) bool) {
		for tree, err := range list[stint.FileSet](ctx, t.c, nil, 0, t.path()...) {
			tree.Kind = t.kind
			if !yield(tree, err) {
				return
			}
		}
	}
}

// Page reads one page of the containers, newest first.
func (t *FileSets) Page(ctx context.Context, o *PageOptions) (*stint.Page[stint.FileSet], error) {
	p, err := page[stint.FileSet](ctx, t.c, nil, o, t.path()...)
	if err != nil {
		return nil, err
	}
	for i := range p.Data {
		p.Data[i].Kind = t.kind
	}
	return p, nil
}

// Delete removes a container and its versions. Versions that a checkpoint
// needs are kept for it.
func (t *FileSets) Delete(ctx context.Context, id string) error {
	return remove(ctx, t.c, t.path(id)...)
}

// PushOptions describes an archive; nil is a tar.gz without a message.
type PushOptions struct {
	Message string
	// ContentType of the archive: application/gzip (tar.gz, the default),
	// application/x-tar or application/zstd.
	ContentType string
	// IfMatch is the version that must be the head, else the push is an *Error
	// with the code version_conflict.
	IfMatch string
}

// Push stores an archive as the new version. When its content equals the
// head's nothing changes, added is false and the version is the head. The
// archive is read once and not sent again when the network fails.
func (t *FileSets) Push(ctx context.Context, id string, archive io.Reader, o *PushOptions) (v *stint.FileSetVersion, added bool, err error) {
	if o == nil {
		o = &PushOptions{}
	}
	q := url.Values{}
	set(q, "message", o.Message)
	// The server says first whether it wants the archive, so that a refusal is
	// not lost in a broken transfer.
	header := http.Header{"Content-Type": {"application/gzip"}, "Expect": {"100-continue"}}
	if o.ContentType != "" {
		header.Set("Content-Type", o.ContentType)
	}
	if o.IfMatch != "" {
		header.Set("If-Match", `"`+o.IfMatch+`"`)
	}
	source := &blame{in: archive}
	req, err := t.c.request(ctx, call{method: http.MethodPost, path: t.path(id, "versions"), query: q, header: header}, source)
	if err != nil {
		return nil, false, err
	}
	res, err := t.c.send(req)
	if own := source.fault(); own != nil && err != nil {
		err = own // what went wrong first, rather than what followed from it
	}
	if err != nil {
		return nil, false, err
	}
	defer res.Body.Close()
	v = new(stint.FileSetVersion)
	if err := json.NewDecoder(io.LimitReader(res.Body, maxAnswer)).Decode(v); err != nil {
		return nil, false, fmt.Errorf("read the answer of the push: %w", err)
	}
	return v, res.StatusCode == http.StatusCreated, nil
}

// blame remembers the reader's own error. The connection may still read when
// the answer is there already.
type blame struct {
	in io.Reader

	mu  sync.Mutex // guards err
	err error
}

func (b *blame) Read(p []byte) (int, error) {
	n, err := b.in.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		b.mu.Lock()
		b.err = err
		b.mu.Unlock()
	}
	return n, err
}

func (b *blame) fault() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.err
}

// Versions walks the versions of a container, newest first.
func (t *FileSets) Versions(ctx context.Context, id string) iter.Seq2[stint.FileSetVersion, error] {
	return list[stint.FileSetVersion](ctx, t.c, nil, 0, t.path(id, "versions")...)
}

// Version reads one version: by ID, number or "latest".
func (t *FileSets) Version(ctx context.Context, id, version string) (*stint.FileSetVersion, error) {
	return get[*stint.FileSetVersion](ctx, t.c, t.path(id, "versions", orLatest(version))...)
}

// Files walks the entries of a version in the order of their paths.
func (t *FileSets) Files(ctx context.Context, id, version string) iter.Seq2[stint.FileEntry, error] {
	return list[stint.FileEntry](ctx, t.c, nil, 0, t.path(id, "versions", orLatest(version), "files")...)
}

// ReadFile opens one file of a version. The caller closes it.
func (t *FileSets) ReadFile(ctx context.Context, id, version, path string) (io.ReadCloser, error) {
	segments := append(t.path(id, "versions", orLatest(version), "files"), strings.Split(path, "/")...)
	res, err := t.c.retry(ctx, call{method: http.MethodGet, path: segments, header: http.Header{"Accept": {"*/*"}}})
	if err != nil {
		return nil, err
	}
	return res.Body, nil
}

// ReadFilePart reads up to length bytes of a file of a version, from offset on,
// and tells the size of the whole. An offset behind the end is an *Error with
// the code range_not_satisfiable.
func (t *FileSets) ReadFilePart(ctx context.Context, id, version, path string, offset, length int64) (part []byte, size int64, err error) {
	segments := append(t.path(id, "versions", orLatest(version), "files"), strings.Split(path, "/")...)
	header := http.Header{"Accept": {"*/*"}, "Range": {fmt.Sprintf("bytes=%d-%d", offset, offset+length-1)}}
	res, err := t.c.retry(ctx, call{method: http.MethodGet, path: segments, header: header})
	if err != nil {
		return nil, 0, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusPartialContent { // the whole: it is empty, or the server knows no parts
		if _, err := io.CopyN(io.Discard, res.Body, offset); err != nil {
			return nil, 0, fmt.Errorf("read '%s': %w", path, err)
		}
		size = res.ContentLength
	} else if _, total, ok := strings.Cut(res.Header.Get("Content-Range"), "/"); ok {
		if size, err = strconv.ParseInt(total, 10, 64); err != nil {
			return nil, 0, fmt.Errorf("read '%s': the server tells the size '%s'", path, total)
		}
	}
	if part, err = io.ReadAll(io.LimitReader(res.Body, length)); err != nil {
		return nil, 0, fmt.Errorf("read '%s': %w", path, err)
	}
	return part, size, nil
}

// FilesPage reads one page of the entries of a version whose paths begin with
// prefix, in the order of their paths.
func (t *FileSets) FilesPage(ctx context.Context, id, version, prefix string, o *PageOptions) (*stint.Page[stint.FileEntry], error) {
	q := url.Values{}
	set(q, "prefix", prefix)
	return page[stint.FileEntry](ctx, t.c, q, o, t.path(id, "versions", orLatest(version), "files")...)
}

// FilesUnder walks the entries of a version whose paths begin with prefix;
// "dir/" is everything below dir.
func (t *FileSets) FilesUnder(ctx context.Context, id, version, prefix string) iter.Seq2[stint.FileEntry, error] {
	q := url.Values{}
	set(q, "prefix", prefix)
	return list[stint.FileEntry](ctx, t.c, q, 0, t.path(id, "versions", orLatest(version), "files")...)
}

// DiffFile opens the lines that differ in one file of two versions, as a
// unified diff; it is empty where nothing does. Files of more than 1 MiB are an
// *Error with the code invalid_parameter. The caller closes it.
func (t *FileSets) DiffFile(ctx context.Context, id, from, to, path string) (io.ReadCloser, error) {
	q := url.Values{"path": {path}, "format": {"unified"}}
	set(q, "from", from)
	set(q, "to", to)
	res, err := t.c.retry(ctx, call{method: http.MethodGet, path: t.path(id, "diff"), query: q, header: http.Header{"Accept": {"text/x-diff"}}})
	if err != nil {
		return nil, err
	}
	return res.Body, nil
}

// Diff walks what differs between two versions, in the order of paths. A file
// that was only renamed is one change.
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
