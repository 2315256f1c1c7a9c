package localdir

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
)

// FS is what root holds, for fs.WalkDir. Unlike that of root.FS its names may
// have any bytes.
func FS(root *os.Root) fs.ReadDirFS { return files{root} }

type files struct{ root *os.Root }

// Open implements fs.FS.
func (f files) Open(name string) (fs.File, error) { return f.root.Open(name) }

// Stat implements fs.StatFS.
func (f files) Stat(name string) (fs.FileInfo, error) { return f.root.Stat(name) }

// ReadDir implements fs.ReadDirFS.
func (f files) ReadDir(name string) ([]fs.DirEntry, error) {
	d, err := f.root.Open(name)
	if err != nil {
		return nil, err
	}
	entries, err := d.ReadDir(-1)
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, errors.Join(err, d.Close())
}
