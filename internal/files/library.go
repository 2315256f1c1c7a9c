package files

import (
	"crypto/rand"
	"fmt"
	"os"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/blob"
	"github.com/stint-dev/stint/internal/files/archive"
	"github.com/stint-dev/stint/internal/files/check"
	"github.com/stint-dev/stint/internal/files/commit"
	"github.com/stint-dev/stint/internal/files/diff"
	"github.com/stint-dev/stint/internal/files/exchange"
	"github.com/stint-dev/stint/internal/files/gc"
	"github.com/stint-dev/stint/internal/files/manifest"
	"github.com/stint-dev/stint/internal/files/pack"
	"github.com/stint-dev/stint/internal/files/scan"
)

// Options adjusts a Library; the zero value works.
type Options struct {
	// TempDir is the folder for temporary files of commits. A commit writes at most
	// the size of the compressed archive plus about 400 bytes per entry. Its files
	// disappear when it ends. "" is the system's folder for temporary files.
	TempDir string
	Limits  Limits
	// IDs generates the names of packs. nil means that the names are generated from
	// the system's clock and random numbers.
	IDs *stint.IDs
	// Index finds chunks in packs of other trees. With nil, chunks are found only
	// in the parent version.
	Index Index
	// Marks returns objects that commits must not refer to. nil means that no
	// garbage is collected.
	Marks CollectionMarks
	// SealedStore receives the objects of commits with DirOptions.Confidential. The
	// library's own store must be able to read these objects, and reads must detect
	// damage, as encryption does. nil is the library's store.
	SealedStore blob.Store
	Now         func() time.Time // nil is time.Now
}

// Library stores trees of files as immutable snapshots and reads them. Its only state
// is caches. It is safe for concurrent use, also by several processes on one store.
//
// If the organisation has no snapshot with a digest, methods that read the snapshot
// return an error that wraps blob.ErrNotFound. Errors in the input are *stint.Error.
type Library struct {
	manifests *manifest.Store
	collector *gc.Collector
	checker   *check.Checker

	*scan.Scanner       // CommitDir, CommitOverlay, CommitArchive
	*exchange.Exchanger // CommitEntries, PutChunks, MissingChunks, WriteTree, WriteChunks, SyncIndex
	*archive.Downloads  // Download, DownloadSum, WriteZstd, DirectLink, CountDownload, StorePopularArchives
	*diff.Differ        // Diff, TextDiff
}

// New returns a library that keeps its objects in b.
func New(b blob.Store, o Options) (*Library, error) {
	if err := o.setDefaults(); err != nil {
		return nil, err
	}
	packs := pack.NewStore(b, pack.Options{TempDir: o.TempDir, IDs: o.IDs, Sealed: o.SealedStore})
	manifests, err := manifest.NewStore(packs)
	if err != nil {
		return nil, err
	}
	collector := &gc.Collector{Packs: packs, Manifests: manifests, Index: o.Index, Database: o.Marks}
	commits := &commit.Committer{Packs: packs, Manifests: manifests, GC: collector, Index: o.Index, RootBytes: o.Limits.RootBytes}
	return &Library{
		manifests: manifests,
		collector: collector,
		checker:   &check.Checker{Packs: packs, Manifests: manifests, Index: o.Index, GC: collector},
		Scanner:   &scan.Scanner{Commits: commits, Limits: o.Limits},
		Exchanger: exchange.New(commits, o.Limits, o.Now),
		Downloads: archive.New(manifests),
		Differ:    diff.New(manifests),
	}, nil
}

func (o *Options) setDefaults() error {
	o.Limits.SetDefaults()
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.TempDir == "" {
		o.TempDir = os.TempDir()
	}
	if o.IDs == nil {
		o.IDs = stint.NewIDs(time.Now, rand.Reader)
	}
	if info, err := os.Stat(o.TempDir); err != nil {
		return fmt.Errorf("checking the folder for temporary files: %w", err)
	} else if !info.IsDir() {
		return fmt.Errorf("%s is not a folder for temporary files", o.TempDir)
	}
	return nil
}
