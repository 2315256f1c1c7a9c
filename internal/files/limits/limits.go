package limits

import (
	"cmp"

	"github.com/stint-dev/stint/internal/files/format"
)

// Limits bounds what a commit accepts. 0 means the default, which is given in the
// comment of each field.
type Limits struct {
	Entries    int64 // files, folders, and links of a tree, and headers of an archive; 2,000,000
	PathBytes  int   // bytes of a path or a link's target; 4096
	Depth      int   // elements of a path; 255
	FileBytes  int64 // bytes of one file; 64 GiB, at most 256 GiB
	TotalBytes int64 // bytes of all files; 64 GiB
	// RootBytes bounds the list of a tree's pages, which every access reads: 32
	// MiB, which is also the maximum. Two million entries take a few MiB with
	// paths of 100 bytes and about 15 MiB with paths of 1000.
	RootBytes int
	// Ratio is the maximum ratio of the expanded size of an archive to its own size;
	// 250. It is checked once more than RatioFloor bytes are expanded; 1 GiB.
	Ratio      int64
	RatioFloor int64
}

// maxName is the longest name that file systems support, in bytes.
const maxName = 255

// maxFile is the maximum size of a file in bytes. It bounds the number of a file's
// chunks, which must fit into one page.
const maxFile = 256 << 30

// SetDefaults replaces zeros by the defaults, and FileBytes and RootBytes by their
// maximums if they are larger.
func (l *Limits) SetDefaults() {
	l.Entries = cmp.Or(l.Entries, 2_000_000)
	l.PathBytes = cmp.Or(l.PathBytes, 4096)
	l.Depth = cmp.Or(l.Depth, 255)
	l.FileBytes = min(cmp.Or(l.FileBytes, 64<<30), maxFile)
	l.TotalBytes = cmp.Or(l.TotalBytes, 64<<30)
	l.RootBytes = min(cmp.Or(l.RootBytes, format.MaxRoot/2), format.MaxRoot/2)
	l.Ratio = cmp.Or(l.Ratio, 250)
	l.RatioFloor = cmp.Or(l.RatioFloor, 1<<30)
}
