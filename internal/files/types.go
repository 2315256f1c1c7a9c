package files

import (
	"github.com/stint-dev/stint/internal/files/archive"
	"github.com/stint-dev/stint/internal/files/check"
	"github.com/stint-dev/stint/internal/files/exchange"
	"github.com/stint-dev/stint/internal/files/format"
	"github.com/stint-dev/stint/internal/files/gc"
	"github.com/stint-dev/stint/internal/files/limits"
	"github.com/stint-dev/stint/internal/files/manifest"
	"github.com/stint-dev/stint/internal/files/pack"
	"github.com/stint-dev/stint/internal/files/scan"
)

type (
	// Ref identifies a snapshot.
	Ref = manifest.Ref
	// Limits bounds what a snapshot may contain.
	Limits = limits.Limits
	// DirOptions configures CommitDir and CommitOverlay.
	DirOptions = scan.DirOptions

	// Format is the format of an archive.
	Format = format.Format
	// Download is an archive that can be read at any offset.
	Download = archive.Download
	// PutResult is the result of storing uploaded chunks.
	PutResult = exchange.PutResult

	// Index is the chunk index that a Library uses.
	Index = pack.ChunkIndex
	// CollectionMarks lists the marked objects, which a collection may delete.
	CollectionMarks = gc.CollectionMarks
	// Roots is the part of the database that a collection uses.
	Roots = gc.Roots
	// CollectOptions configures Collect.
	CollectOptions = gc.Options
	// CollectResult is the result of Collect.
	CollectResult = gc.Result

	// NamedTree is a snapshot and the name that users know it by.
	NamedTree = check.NamedTree
	// CheckOptions configures Check.
	CheckOptions = check.Options
	// CheckResult is the result of Check.
	CheckResult = check.Result
	// Damage is a damaged or missing object.
	Damage = check.Damage
	// Use is a place in a snapshot that a damage affects.
	Use = check.Use

	// Cutter splits a file into chunks.
	Cutter = format.Cutter
	// Codec compresses and expands segments.
	Codec = format.Codec
)

// The formats of archives. Zip is a format of downloads only.
const (
	TarGzip = format.TarGzip
	Tar     = format.Tar
	TarZstd = format.TarZstd
	Zip     = format.Zip
)

// MaxSingleChunk is the size in bytes up to which a file is one chunk.
const MaxSingleChunk = format.MaxSingleChunk

// Errors that callers handle.
var (
	ErrStale        = gc.ErrStale
	ErrNotPublished = gc.ErrNotPublished
	ErrCollecting   = gc.ErrCollecting
)

// ComparePaths orders paths as a walk visits them: a folder, its content, its
// next sibling; siblings by the bytes of their names.
func ComparePaths(a, b string) int { return format.ComparePaths(a, b) }

// IsUniqueKey reports whether a key was generated for a single object and is never
// used for another object.
func IsUniqueKey(key string) bool { return pack.IsUniqueKey(key) }

// ParseDerivedKey returns the organisation and the digest of the snapshot that an
// object under one of DerivedPrefixes was made from. For other keys, ok is false.
func ParseDerivedKey(key string) (org, digest string, ok bool) { return pack.ParseDerivedKey(key) }

// DerivedPrefixes returns the key prefixes of an organisation's derived objects, which
// are made from snapshots and can be made again.
func DerivedPrefixes(org string) []string { return pack.DerivedPrefixes(org) }
