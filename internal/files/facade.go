package files

import (
	"context"
	"io"
	"strings"

	"github.com/stint-dev/stint"
)

// Stat returns the size of a snapshot. It reads only the root. The Epoch of the
// result is 0.
func (l *Library) Stat(ctx context.Context, org, digest string) (Ref, error) {
	m, err := l.manifests.open(ctx, org, digest)
	if err != nil {
		return Ref{}, err
	}
	return Ref{Digest: digest, Size: m.root.size, Files: m.root.files}, nil
}

// List returns at most limit entries that follow the path after ("" = from the
// start) in path order, and reports whether more exist. The path after need not
// exist.
func (l *Library) List(ctx context.Context, org, digest, after string, limit int) (page []stint.FileEntry, more bool, err error) {
	return l.ListPrefix(ctx, org, digest, "", after, limit)
}

// ListPrefix is List for the entries whose paths begin with prefix. "dir/"
// lists the content of dir. Nothing before the prefix is read.
func (l *Library) ListPrefix(ctx context.Context, org, digest, prefix, after string, limit int) (page []stint.FileEntry, more bool, err error) {
	m, err := l.manifests.open(ctx, org, digest)
	if err != nil {
		return nil, false, err
	}
	page = []stint.FileEntry{}
	if after == "" && prefix != "" { // the walk starts behind the path that it is given
		e, err := m.find(ctx, prefix)
		if err != nil {
			return nil, false, err
		}
		if e != nil {
			page = append(page, e.public())
		}
	}
	if after == "" || comparePaths(after, prefix) < 0 {
		after = prefix
	}
	for e, err := range m.from(ctx, after) {
		if err != nil {
			return nil, false, err
		}
		if !strings.HasPrefix(e.path, prefix) {
			break
		}
		if len(page) >= limit {
			return page, true, nil
		}
		page = append(page, e.public())
	}
	return page, false, nil
}

// File is the content of a stored file. It serves one goroutine.
type File interface{ io.ReadSeekCloser }

// Open opens the file at path. The error is a NotFound *stint.Error if the
// snapshot lacks the path, and an Invalid one if it is not a file. Reads fail
// when ctx ends; the content is verified.
func (l *Library) Open(ctx context.Context, org, digest, path string) (File, stint.FileEntry, error) {
	m, err := l.manifests.open(ctx, org, digest)
	if err != nil {
		return nil, stint.FileEntry{}, err
	}
	e, err := m.find(ctx, path)
	switch {
	case err != nil:
		return nil, stint.FileEntry{}, err
	case e == nil:
		return nil, stint.FileEntry{}, stint.NotFound("file", path)
	case e.kind != file:
		return nil, stint.FileEntry{}, stint.InvalidParam("path", "'%s' is not a file but a %s.", printable(path), e.kind)
	}
	return m.openFile(ctx, e), e.public(), nil
}

// Checkout writes the snapshot into dir, an empty folder that exists, with
// modes, modification times, links and empty folders. Every byte is verified.
// Links are not followed, so nothing outside dir changes. After an error dir
// holds a part of the snapshot.
func (l *Library) Checkout(ctx context.Context, org, digest, dir string) error {
	m, err := l.manifests.open(ctx, org, digest)
	if err != nil {
		return err
	}
	return checkout(ctx, m, dir)
}
