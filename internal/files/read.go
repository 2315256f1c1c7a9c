package files

import (
	"context"
	"io"
	"iter"
	"strings"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/files/checkout"
	"github.com/stint-dev/stint/internal/files/format"
	"github.com/stint-dev/stint/internal/files/limits"
)

// Stat returns the size of a snapshot. It reads only the root. The Epoch of the
// result is 0.
func (l *Library) Stat(ctx context.Context, org, digest string) (Ref, error) {
	m, err := l.manifests.Open(ctx, org, digest)
	if err != nil {
		return Ref{}, err
	}
	return Ref{Digest: digest, Size: m.Root.Size, Files: m.Root.Files}, nil
}

// List returns at most limit entries whose paths begin with prefix and that follow
// the path after ("" = from the start) in path order, and reports whether more
// exist. "dir/" lists the content of dir. The path after need not exist. Nothing
// before the prefix is read.
func (l *Library) List(ctx context.Context, org, digest, prefix, after string, limit int) (page []stint.FileEntry, more bool, err error) {
	m, err := l.manifests.Open(ctx, org, digest)
	if err != nil {
		return nil, false, err
	}
	page = []stint.FileEntry{}
	if after == "" && prefix != "" { // the walk starts behind the path that it is given
		e, err := m.Find(ctx, prefix)
		if err != nil {
			return nil, false, err
		}
		if e != nil {
			page = append(page, e.Public())
		}
	}
	if after == "" || format.ComparePaths(after, prefix) < 0 {
		after = prefix
	}
	for e, err := range m.From(ctx, after) {
		if err != nil {
			return nil, false, err
		}
		if !strings.HasPrefix(e.Path, prefix) {
			break
		}
		if len(page) >= limit {
			return page, true, nil
		}
		page = append(page, e.Public())
	}
	return page, false, nil
}

// File is the content of a stored file. It serves one goroutine.
type File interface{ io.ReadSeekCloser }

// Open opens the file at path. The error is a NotFound *stint.Error if the
// snapshot lacks the path, and an Invalid one if it is not a file. Reads fail
// when ctx ends; the content is verified.
func (l *Library) Open(ctx context.Context, org, digest, path string) (File, stint.FileEntry, error) {
	m, err := l.manifests.Open(ctx, org, digest)
	if err != nil {
		return nil, stint.FileEntry{}, err
	}
	e, err := m.Find(ctx, path)
	switch {
	case err != nil:
		return nil, stint.FileEntry{}, err
	case e == nil:
		return nil, stint.FileEntry{}, stint.NotFound("file", path)
	case e.Kind != format.File:
		return nil, stint.FileEntry{}, stint.InvalidParam("path", "'%s' is not a file but a %s.", limits.Printable(path), e.Kind)
	}
	return m.OpenFile(ctx, e), e.Public(), nil
}

// Checkout writes the snapshot into dir, an empty folder that exists, with
// modes, modification times, links and empty folders. Every byte is verified.
// Links are not followed, so nothing outside dir changes. After an error dir
// holds a part of the snapshot.
func (l *Library) Checkout(ctx context.Context, org, digest, dir string) error {
	m, err := l.manifests.Open(ctx, org, digest)
	if err != nil {
		return err
	}
	return checkout.Write(ctx, m, dir)
}

// Collect deletes what no snapshot that r names refers to. See gc.Collector.
func (l *Library) Collect(ctx context.Context, org string, r Roots, o CollectOptions) (CollectResult, error) {
	return l.collector.Collect(ctx, org, r, o)
}

// Publish makes the database refer to snapshots: it calls write with the epoch
// that belongs to them, and again after validating them if a collection began
// meanwhile. The error wraps ErrNotPublished if that fails, and ErrStale if the
// snapshots were deleted and must be committed again. Other errors are those of
// write.
func (l *Library) Publish(ctx context.Context, org string, refs []Ref, write func(epoch int64) error) error {
	return l.collector.Publish(ctx, org, refs, write)
}

// Check verifies, and repairs if asked to, everything that the snapshots of
// live consist of. See check.Checker.
func (l *Library) Check(ctx context.Context, org string, live iter.Seq2[NamedTree, error], o CheckOptions) (CheckResult, error) {
	return l.checker.Check(ctx, org, live, o)
}
