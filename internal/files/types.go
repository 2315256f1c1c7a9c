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

// Types of the subpackages that callers of a Library use.
type (
	Ref        = manifest.Ref
	Limits     = limits.Limits
	DirOptions = scan.DirOptions

	Format    = format.Format
	Download  = archive.Download
	PutResult = exchange.PutResult

	Index           = pack.ChunkIndex
	CollectionMarks = gc.CollectionMarks
	Roots           = gc.Roots
	CollectOptions  = gc.Options
	CollectResult   = gc.Result

	NamedTree    = check.NamedTree
	CheckOptions = check.Options
	CheckResult  = check.Result
	Damage       = check.Damage
	Use          = check.Use

	Cutter = format.Cutter
	Codec  = format.Codec
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

// IsUniqueKey reports whether a key is never used for a second object.
func IsUniqueKey(key string) bool { return pack.IsUniqueKey(key) }

// ParseDerivedKey returns the snapshot that an object under one of
// DerivedPrefixes was made from; ok is false for a key of another form.
func ParseDerivedKey(key string) (org, digest string, ok bool) { return pack.ParseDerivedKey(key) }

// DerivedPrefixes returns the prefixes of an organisation's keys whose objects
// are made from snapshots and can be made again.
func DerivedPrefixes(org string) []string { return pack.DerivedPrefixes(org) }
