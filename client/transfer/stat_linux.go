package transfer

import (
	"io/fs"
	"syscall"
)

// system sets the change time and the inode number. They reveal changes that keep the
// size and the modification time.
func (s *fileStat) system(info fs.FileInfo) {
	if t, ok := info.Sys().(*syscall.Stat_t); ok {
		s.changed = t.Ctim.Nano()
		s.inode = t.Ino
	}
}
