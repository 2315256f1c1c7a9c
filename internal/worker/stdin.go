package worker

import (
	"io"
	"sync"
)

// maxUnread is how much may wait for an agent to read it, in bytes.
const maxUnread = 16 << 20

// stdin is what the agent reads: what was written, then the end. Writers never
// wait. It is safe for concurrent use.
type stdin struct {
	mu     sync.Mutex
	change *sync.Cond
	unread []byte
	closed bool
}

func newStdin() *stdin {
	s := &stdin{}
	s.change = sync.NewCond(&s.mu)
	return s
}

// write adds to what the agent is to read; false when too much waits already.
// After hangUp it is lost.
func (s *stdin) write(p []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || len(p) == 0 {
		return true
	}
	if len(s.unread)+len(p) > maxUnread {
		return false
	}
	s.unread = append(s.unread, p...)
	s.change.Broadcast()
	return true
}

// hangUp ends the input behind what was written. It is idempotent.
func (s *stdin) hangUp() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.change.Broadcast()
}

// Read waits for something to read.
func (s *stdin) Read(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.unread) == 0 && !s.closed {
		s.change.Wait()
	}
	if len(s.unread) == 0 {
		return 0, io.EOF
	}
	n := copy(p, s.unread)
	s.unread = s.unread[n:]
	return n, nil
}
