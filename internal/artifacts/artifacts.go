// Package artifacts manages artifacts, volumes, and their versions.
//
// Both are file sets: a name with versions that are numbered 1, 2, 3 …; the newest
// is the current version. Package files stores the content of a version as a
// snapshot, which is identified by the version's digest.
package artifacts

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/auth"
	"github.com/stint-dev/stint/internal/files"
	"github.com/stint-dev/stint/internal/store"
)

// Library stores the files of versions. *files.Library implements it.
type Library interface {
	CommitArchive(ctx context.Context, org, parent string, f files.Format, r io.Reader) (files.Ref, error)
	Publish(ctx context.Context, org string, refs []files.Ref, write func(epoch int64) error) error
	Open(ctx context.Context, org, digest, path string) (files.File, stint.FileEntry, error)
	ListPrefix(ctx context.Context, org, digest, prefix, after string, limit int) (page []stint.FileEntry, more bool, err error)
	Diff(ctx context.Context, org, from, to, after string, limit int) (page []stint.FileChange, more bool, err error)
	TextDiff(ctx context.Context, org, from, to, path string) (string, error)
	Download(ctx context.Context, org, digest string, f files.Format) (files.Download, error)
	DownloadSum(ctx context.Context, org, digest string, f files.Format, size int64, compute bool) (sum [32]byte, known bool, err error)
	WriteZstd(ctx context.Context, org, digest string, w io.Writer) error
	CountDownload(org, digest string, size int64)
	DirectLink(ctx context.Context, org, digest, name string, ttl time.Duration) (address string, ok bool, err error)
	ChunkExchange
}

// Config configures a Service. Now and Random default to time.Now and
// crypto/rand.Reader.
type Config struct {
	Store   store.FileSets
	Library Library
	Quota   Quota
	IDs     *stint.IDs
	Now     func() time.Time
	Random  io.Reader
}

// Service manages artifacts and volumes. It is safe for concurrent use.
type Service struct {
	store   store.FileSets
	library Library
	quota   Quota
	ids     *stint.IDs
	now     func() time.Time
	random  io.Reader
}

// New returns a service.
func New(c Config) *Service {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Random == nil {
		c.Random = rand.Reader
	}
	return &Service{store: c.Store, library: c.Library, quota: c.Quota, ids: c.IDs, now: c.Now, random: c.Random}
}

// Create creates an artifact or volume without a version.
func (s *Service) Create(ctx context.Context, c auth.Caller, kind stint.FileSetKind, name string) (stint.FileSet, error) {
	if e := stint.CheckName("name", name); e != nil {
		return stint.FileSet{}, e
	}
	now := stint.TimeOf(s.now())
	t := stint.FileSet{ID: s.ids.New(kind.Prefix()), Name: name, CreatedAt: now, UpdatedAt: now, Kind: kind}
	err := s.store.CreateFileSet(ctx, store.FileSet{FileSet: t, OrgID: c.OrgID})
	if errors.Is(err, store.ErrExists) {
		return stint.FileSet{}, stint.AlreadyExists(string(kind), name)
	}
	if err != nil {
		return stint.FileSet{}, fmt.Errorf("create %s %s: %w", kind, name, err)
	}
	return t, nil
}

// Get returns an artifact or volume with its current version.
func (s *Service) Get(ctx context.Context, org string, kind stint.FileSetKind, id string) (stint.FileSetDetail, error) {
	t, err := s.tree(ctx, org, kind, id)
	if err != nil || t.CurrentVersionID == nil {
		return stint.FileSetDetail{FileSet: t}, err
	}
	head, err := s.store.FileSetVersion(ctx, org, id, *t.CurrentVersionID, 0)
	if err != nil {
		return stint.FileSetDetail{}, fmt.Errorf("read head of %s %s: %w", kind, id, err)
	}
	return stint.FileSetDetail{FileSet: t, CurrentVersion: &head.FileSetVersion}, nil
}

func (s *Service) tree(ctx context.Context, org string, kind stint.FileSetKind, id string) (stint.FileSet, error) {
	t, err := store.Lookup(ctx, func(ctx context.Context, org, id string) (store.FileSet, error) {
		return s.store.FileSet(ctx, org, kind, id)
	}, kind.Prefix(), org, id)
	t.Kind = kind
	return t.FileSet, err
}

// ByName returns the artifact or volume of that name.
func (s *Service) ByName(ctx context.Context, org string, kind stint.FileSetKind, name string) (stint.FileSet, error) {
	if stint.CheckName("name", name) != nil {
		return stint.FileSet{}, stint.NotFound(string(kind), name)
	}
	t, err := s.store.FileSetByName(ctx, org, kind, name)
	t.Kind = kind
	return t.FileSet, store.PublicError(err, string(kind), name)
}

// List returns a page of artifacts or volumes, newest first.
func (s *Service) List(ctx context.Context, org string, kind stint.FileSetKind, r store.Range) ([]stint.FileSet, error) {
	stored, err := s.store.FileSets(ctx, org, kind, r)
	if err != nil {
		return nil, fmt.Errorf("list %ss: %w", kind, err)
	}
	trees := make([]stint.FileSet, len(stored))
	for i, t := range stored {
		trees[i] = t.FileSet
	}
	return trees, nil
}

// Delete deletes an artifact or volume with its versions. Its name can be reused. A
// version in a checkpoint stays readable through the checkpoint.
func (s *Service) Delete(ctx context.Context, c auth.Caller, kind stint.FileSetKind, id string) error {
	if !stint.IsID(kind.Prefix(), id) {
		return stint.NotFound(string(kind), id)
	}
	return store.PublicError(s.store.DeleteFileSet(ctx, c.OrgID, kind, id, stint.TimeOf(s.now())), string(kind), id)
}
