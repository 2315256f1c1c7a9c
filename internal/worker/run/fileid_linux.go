package run

import (
	"io/fs"
	"syscall"
)

// fileID identifies a file and its content. Any change updates ctime, even if
// mtime is reset.
type fileID struct {
	mode              fs.FileMode
	size              int64
	inode             uint64
	changed, modified syscall.Timespec
}

func fileIDOf(info fs.FileInfo) (fileID, bool) {
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fileID{}, false
	}
	return fileID{info.Mode(), info.Size(), s.Ino, s.Ctim, s.Mtim}, true
}
