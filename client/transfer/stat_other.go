//go:build !linux

package transfer

import "io/fs"

// system does nothing: changed and inode are read only on Linux.
func (s *fileStat) system(fs.FileInfo) {}
