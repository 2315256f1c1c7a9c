//go:build !linux

package run

import "io/fs"

// fileID is not available: every conversation counts as changed.
type fileID struct{}

func fileIDOf(fs.FileInfo) (fileID, bool) { return fileID{}, false }
