package files

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/blob"
)

// Ref names a stored tree of files inside one organisation.
type Ref struct {
	Digest string // SHA-256 over the logical manifest, 64 hexadecimal digits
	Size   int64  // sum of the sizes of the files, bytes
	Files  int64  // files; folders and links do not count
	// Epoch is that of the collection under which the commit began, or was
	// renewed; 0 where Options.Marks is nil. It is no part of the tree's name.
	Epoch int64
}

// Options adjusts a Library; the zero value works.
type Options struct {
	// TempDir is where commits spool what does not fit into memory: at most
	// the size of the compressed archive plus some 400 bytes an entry. Nothing
	// stays in it. "" is the system's folder of temporary files.
	TempDir string
	Limits  Limits
	// IDs mints the names of packs. nil uses the system's clock and randomness.
	IDs *stint.IDs
	// Index finds chunks in packs of other trees. nil = none: chunks are found
	// in the parent version alone.
	Index Index
	// Garbage tells what must not be built upon. nil = nothing is collected.
	Marks CollectionMarks
	// Confidential is where commits write whose DirOptions say so. What it holds
	// must be readable through the library's own store, and reading it must fail
	// where it is damaged, as encryption sees to. nil is the library's store.
	SealedStore blob.Store
	Now         func() time.Time // nil: time.Now
}

// Limits bounds what a commit accepts. A member that is 0 has its default.
type Limits struct {
	Entries    int64 // files, folders and links of a tree, and headers of an archive; 2,000,000
	PathBytes  int   // bytes of a path or of a link's target; 4096
	Depth      int   // elements of a path; 255
	FileBytes  int64 // bytes of one file; 64 GiB, at most 256 GiB
	TotalBytes int64 // bytes of all files; 64 GiB
	// RootBytes bounds the list of a tree's pages, which is read whole whatever
	// is wanted of the tree: 32 MiB, which is also the most. Two million entries
	// take a few MiB of it with paths of 100 bytes and some 15 with such of 1000.
	RootBytes int
	// Ratio is how many times larger than itself an archive may become, 250.
	// It is not asked before RatioFloor bytes (1 GiB) have come out.
	Ratio      int64
	RatioFloor int64
}

// maxName is the longest element of a path that file systems hold, in bytes.
const maxName = 255

// maxFile bounds a file's chunks, which must fit into one page.
const maxFile = 256 << 30

func orDefault[N int | int64](v *N, d N) {
	if *v == 0 {
		*v = d
	}
}

func (l *Limits) setDefaults() {
	orDefault(&l.Entries, 2_000_000)
	orDefault(&l.PathBytes, 4096)
	orDefault(&l.Depth, 255)
	orDefault(&l.FileBytes, 64<<30)
	l.FileBytes = min(l.FileBytes, maxFile)
	orDefault(&l.TotalBytes, 64<<30)
	orDefault(&l.RootBytes, maxRoot/2)
	l.RootBytes = min(l.RootBytes, maxRoot/2)
	orDefault(&l.Ratio, 250)
	orDefault(&l.RatioFloor, 1<<30)
}

// Library stores trees of files and gives them back. It holds no state of its
// own and is safe for concurrent use, also by several processes on one store.
//
// Methods that read answer with an error that wraps blob.ErrNotFound where the
// organisation has no tree of that digest. Faults of the input are
// *stint.Error.
type Library struct {
	packs         *packStore
	blobs         blob.Store // is packs
	sealed        blob.Store // where what is confidential is written
	authenticated bool       // what rests there cannot be damaged unnoticed
	tempDir       string
	limits        Limits
	ids           *stint.IDs
	index         Index
	garbage       CollectionMarks
	zstdOut       *zstd.Encoder // of roots and pages
	zstdIn        *zstd.Decoder
	caches        *readCaches
	packScans     packScans
}

// New makes a library that keeps its objects in b.
func New(b blob.Store, o Options) (*Library, error) {
	packs := newPackStore(b)
	l := &Library{blobs: packs, packs: packs, tempDir: o.TempDir, limits: o.Limits, ids: o.IDs, index: o.Index, garbage: o.Marks, caches: newReadCaches()}
	if l.sealed = o.SealedStore; l.sealed == nil {
		l.sealed = packs
	}
	l.authenticated = o.SealedStore != nil
	l.packScans = packScans{now: o.Now, last: map[string]time.Time{}}
	if o.Now == nil {
		l.packScans.now = time.Now
	}
	l.limits.setDefaults()
	if l.tempDir == "" {
		l.tempDir = os.TempDir()
	}
	if l.ids == nil {
		l.ids = stint.NewIDs(time.Now, rand.Reader)
	}
	if info, err := os.Stat(l.tempDir); err != nil {
		return nil, fmt.Errorf("looking for the folder of temporary files: %w", err)
	} else if !info.IsDir() {
		return nil, fmt.Errorf("%s is no folder for temporary files", l.tempDir)
	}
	parallel := min(runtime.GOMAXPROCS(0), 4)
	var err error
	l.zstdOut, err = zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(parallel), zstd.WithLowerEncoderMem(true))
	if err != nil {
		return nil, fmt.Errorf("preparing the compressor of manifests: %w", err)
	}
	l.zstdIn, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(parallel), zstd.WithDecoderMaxMemory(maxRoot))
	if err != nil {
		return nil, fmt.Errorf("preparing the expander of manifests: %w", err)
	}
	return l, nil
}

func manifestKey(org, digest string) string { return org + "/manifests/" + digest }

func isDigest(s string) bool {
	return len(s) == 64 && strings.Trim(s, "0123456789abcdef") == ""
}

// checkOrg keeps what becomes part of a key in its form.
func checkOrg(org string) error {
	id, ok := strings.CutPrefix(org, stint.PrefixOrg)
	if !ok || strings.Contains(id, "/") || blob.CheckKey(id) != nil {
		return fmt.Errorf("%q is no identifier of an organisation", org)
	}
	return nil
}

func (l *Library) exists(ctx context.Context, key string) (bool, error) {
	_, err := l.blobs.Stat(ctx, key)
	switch {
	case errors.Is(err, blob.ErrNotFound):
		return false, nil
	case err != nil && !errors.Is(err, blob.ErrDamaged):
		return false, fmt.Errorf("looking for an object: %w", err)
	}
	return true, nil
}
