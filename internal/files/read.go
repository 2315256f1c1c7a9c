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

// Stat returns the size and the number of files of a snapshot. It reads only the
// root. The Epoch of the result is 0.
func (l *Library) Stat(ctx context.Context, org, digest string) (Ref, error) {
	m, err := l.manifests.Open(ctx, org, digest)
	if err != nil {
		return Ref{}, err
	}
	return Ref{Digest: digest, Size: m.Root.Size, Files: m.Root.Files}, nil
}

// List returns at most limit entries in path order, and reports whether more exist.
// The entries have paths that begin with prefix and follow the path after ("" = from
// the start), which need not exist. The prefix "dir/" lists the content of dir. List
// does not read pages before the prefix.
func (l *Library) List(ctx context.Context, org, digest, prefix, after string, limit int) (page []stint.FileEntry, more bool, err error) {
	m, err := l.manifests.Open(ctx, org, digest)
	if err != nil {
		return nil, false, err
	}
	page = []stint.FileEntry{}
	if after == "" && prefix != "" { // the walk below begins after prefix
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

// File is the content of a stored file. It is not safe for concurrent use.
type File interface{ io.ReadSeekCloser }

// Open opens the file at path. If the snapshot lacks the path, the error is a
// *stint.Error of the kind NotFound; if path is not a file, it is of the kind
// Invalid. Reads verify the content and fail after ctx ends.
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

// Checkout writes the snapshot into dir, which must be an existing, empty folder,
// with modes, modification times, links and empty folders. All content is verified.
// Links are not followed, so nothing outside dir changes. After an error, dir may
// hold a part of the snapshot.
func (l *Library) Checkout(ctx context.Context, org, digest, dir string) error {
	m, err := l.manifests.Open(ctx, org, digest)
	if err != nil {
		return err
	}
	return checkout.Write(ctx, m, dir)
}

// Collect deletes objects that no snapshot of r refers to. See gc.Collector.
func (l *Library) Collect(ctx context.Context, org string, r Roots, o CollectOptions) (CollectResult, error) {
	return l.collector.Collect(ctx, org, r, o)
}

// Publish makes the database refer to snapshots. It calls write with their epoch.
// If a collection began meanwhile, Publish validates the snapshots and calls write
// again. If the validation fails, the error wraps ErrNotPublished. If a collection
// has marked or deleted a part of the snapshots, so that they must be committed
// again, it also wraps ErrStale. Other errors are those of write.
func (l *Library) Publish(ctx context.Context, org string, refs []Ref, write func(epoch int64) error) error {
	return l.collector.Publish(ctx, org, refs, write)
}

// Check verifies all objects that the snapshots in live refer to, and repairs them
// if o.Repair is set. See check.Checker.
func (l *Library) Check(ctx context.Context, org string, live iter.Seq2[NamedTree, error], o CheckOptions) (CheckResult, error) {
	return l.checker.Check(ctx, org, live, o)
}
