//go:build linux && (amd64 || arm64)

package control

import (
	"errors"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// drainTime is the time for which output is read after the command's end if a
// remaining process of the sandbox keeps the pipe open.
const drainTime = 100 * time.Millisecond

// outputCopier copies one output stream of the command to the caller's writer.
type outputCopier struct {
	pipe      *os.File
	dst       io.Writer
	delivered chan struct{} // closed after the last Write to dst
}

func newOutputCopier(pipe *os.File, to io.Writer) *outputCopier {
	return &outputCopier{pipe: pipe, dst: to, delivered: make(chan struct{})}
}

var buffers = sync.Pool{New: func() any { b := make([]byte, 32<<10); return &b }}

// copy copies until the pipe ends or the deadline passes. After a write error
// the pipe is still read, so that the command does not block.
func (s *outputCopier) copy() {
	defer close(s.delivered)
	defer s.pipe.Close()
	buf := buffers.Get().(*[]byte)
	defer buffers.Put(buf)
	to := s.dst
	deliver := func(p []byte) {
		if _, err := to.Write(p); err != nil {
			to = io.Discard
		}
	}
	for {
		n, err := s.pipe.Read(*buf)
		if n > 0 {
			deliver((*buf)[:n])
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			s.drain(*buf, deliver)
			return
		}
		if err != nil {
			return
		}
	}
}

// drain copies the bytes that are in the pipe now. They include everything that the
// command wrote before it ended, even if dst was too slow to receive it within
// drainTime.
func (s *outputCopier) drain(buf []byte, deliver func([]byte)) {
	raw, err := s.pipe.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) { // fails only for a closed pipe
		waiting, err := unix.IoctlGetInt(int(fd), unix.TIOCINQ)
		for err == nil && waiting > 0 {
			var n int
			if n, err = unix.Read(int(fd), buf[:min(len(buf), waiting)]); n <= 0 {
				return
			}
			deliver(buf[:n])
			waiting -= n
		}
	})
}

// startDeadline ends the copying after drainTime, unless the pipe ends before.
func (s *outputCopier) startDeadline() {
	// Fails only for a pipe that has ended.
	_ = s.pipe.SetReadDeadline(time.Now().Add(drainTime))
}

// copyInput copies the command's input until from ends or no process reads the pipe.
func copyInput(pipe *os.File, from io.Reader) {
	defer pipe.Close()
	_, _ = io.Copy(pipe, from) // an error is normal: the command may end without reading its input
}
