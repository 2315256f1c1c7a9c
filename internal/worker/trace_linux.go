package worker

import (
	"io/fs"
	"syscall"
)

// trace tells whether a file is still the one that was laid out. Who changes a
// file changes its ctime, whatever he does to its other times.
type trace struct {
	mode              fs.FileMode
	size              int64
	inode             uint64
	changed, modified syscall.Timespec
}

func traceOf(info fs.FileInfo) (trace, bool) {
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return trace{}, false
	}
	return trace{info.Mode(), info.Size(), s.Ino, s.Ctim, s.Mtim}, true
}
