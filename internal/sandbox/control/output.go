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

// drain is how long after the command's end its output is waited for where a
// process that it left keeps the pipe open.
const drainTime = 100 * time.Millisecond

// stream carries one output of the command to the caller's writer.
type outputCopier struct {
	pipe      *os.File
	dst       io.Writer
	delivered chan struct{} // closed when nothing more is written
}

func newOutputCopier(pipe *os.File, to io.Writer) *outputCopier {
	return &outputCopier{pipe: pipe, dst: to, delivered: make(chan struct{})}
}

var buffers = sync.Pool{New: func() any { b := make([]byte, 32<<10); return &b }}

// copy runs until the pipe ends or conclude's time is over. A writer that fails
// gets no more, but the pipe is read on: the command must not hang on it.
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

// rest delivers what stands in the pipe now, which is all that the command
// wrote before it ended, even if the writer was slow to take it.
func (s *outputCopier) drain(buf []byte, deliver func([]byte)) {
	raw, err := s.pipe.SyscallConn()
	if err != nil {
		return
	}
	waiting := 0
	for more := true; more; {
		err := raw.Control(func(fd uintptr) {
			if waiting == 0 {
				if waiting, err = unix.IoctlGetInt(int(fd), unix.TIOCINQ); err != nil {
					waiting = 0
				}
			}
			n, err := unix.Read(int(fd), buf[:min(len(buf), max(waiting, 0))])
			if err != nil || n <= 0 {
				more = false
				return
			}
			deliver(buf[:n])
			waiting -= n
			more = waiting > 0
		})
		if err != nil {
			return
		}
	}
}

// conclude gives the stream until drain to end.
func (s *outputCopier) startDeadline() {
	// Only a pipe that has ended cannot be given a deadline.
	_ = s.pipe.SetReadDeadline(time.Now().Add(drainTime))
}

// feed gives the command its input, and ends with either of them.
func copyInput(pipe *os.File, from io.Reader) {
	defer pipe.Close()
	_, _ = io.Copy(pipe, from) // a command need not read its input
}
