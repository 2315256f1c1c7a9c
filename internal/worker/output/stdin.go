package output

import (
	"io"
	"sync"
)

// maxUnread is the maximum number of bytes that the agent has not read yet.
const maxUnread = 16 << 20

// Stdin is the agent's standard input: a pipe on which writes never wait. It is
// safe for concurrent use.
type Stdin struct {
	mu      sync.Mutex // guards the fields below
	changed *sync.Cond
	unread  []byte
	closed  bool
}

// NewStdin returns an empty standard input.
func NewStdin() *Stdin {
	s := &Stdin{}
	s.changed = sync.NewCond(&s.mu)
	return s
}

// Write appends p to the input. If more than 16 MiB would be unread, it drops p and
// returns false. After CloseWrite, it does nothing and returns true.
func (s *Stdin) Write(p []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || len(p) == 0 {
		return true
	}
	if len(s.unread)+len(p) > maxUnread {
		return false
	}
	s.unread = append(s.unread, p...)
	s.changed.Broadcast()
	return true
}

// CloseWrite ends the input after the bytes that were written. It is idempotent.
func (s *Stdin) CloseWrite() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.changed.Broadcast()
}

// Read waits for input and reads it. It returns io.EOF at the end.
func (s *Stdin) Read(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.unread) == 0 && !s.closed {
		s.changed.Wait()
	}
	if len(s.unread) == 0 {
		return 0, io.EOF
	}
	n := copy(p, s.unread)
	s.unread = s.unread[n:]
	return n, nil
}
