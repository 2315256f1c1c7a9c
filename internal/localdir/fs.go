package localdir

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
)

// FS returns a file system with the files of root, for use with fs.WalkDir. Unlike
// root.FS, it supports file names that are not valid UTF-8.
func FS(root *os.Root) fs.ReadDirFS { return rootFS{root} }

type rootFS struct{ root *os.Root }

// Open implements fs.FS.
func (f rootFS) Open(name string) (fs.File, error) { return f.root.Open(name) }

// Stat implements fs.StatFS.
func (f rootFS) Stat(name string) (fs.FileInfo, error) { return f.root.Stat(name) }

// ReadDir implements fs.ReadDirFS.
func (f rootFS) ReadDir(name string) ([]fs.DirEntry, error) {
	d, err := f.root.Open(name)
	if err != nil {
		return nil, err
	}
	entries, err := d.ReadDir(-1)
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, errors.Join(err, d.Close())
}
