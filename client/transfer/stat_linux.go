package transfer

import (
	"io/fs"
	"syscall"
)

// system sets the change time and the inode, which show changes that size and
// modification time do not.
func (s *fileStat) system(info fs.FileInfo) {
	if t, ok := info.Sys().(*syscall.Stat_t); ok {
		s.changed = t.Ctim.Sec*1e9 + t.Ctim.Nsec
		s.inode = t.Ino
	}
}
