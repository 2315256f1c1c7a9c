//go:build !linux

package transfer

import "io/fs"

// system does nothing: only size and modification time are known.
func (s *fileStat) system(fs.FileInfo) {}
