//go:build linux && (amd64 || arm64)

package agentinit

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Command is a command; its three streams travel beside it.
type Command struct {
	Argv, Env []string
	Dir       string
	// Processes is how many processes and threads the agent may have, where
	// only the kernel inside can count them; 0 leaves it to the isolator.
	Processes int64
}

// Carry carries the order.
func (o *Command) Fields(c *Coder) {
	c.Strings(&o.Argv)
	c.Strings(&o.Env)
	c.String(&o.Dir)
	c.Int64(&o.Processes)
}

// Op names a message. Server to init: go, start, term. Init to server: ready or
// failed, then started or refused, then exit, then empty.
type Op string

// The messages, in the order of a life.
const (
	OpGo      Op = "go"
	OpStart   Op = "start"
	OpTerm    Op = "term"
	OpReady   Op = "ready"
	OpFailed  Op = "failed"
	OpStarted Op = "started"
	OpRefused Op = "refused"
	OpExit    Op = "exit"
	OpEmpty   Op = "empty"
)

// Message is one packet of the control socket. Big things travel as memory
// files beside it, so that no packet nears the socket's limit.
type Message struct {
	Op     Op
	Text   string
	Code   int
	Signal int
	Killed bool // the command ended after a term
}

// Carry carries the message.
func (m *Message) Fields(c *Coder) {
	c.String((*string)(&m.Op))
	c.String(&m.Text)
	c.Int(&m.Code)
	c.Int(&m.Signal)
	c.Bool(&m.Killed)
}

// Bounds of one packet.
const (
	MaxMessage     = 16 << 10 // bytes
	MaxDescriptors = 64       // descriptors
)

// ReadMemoryFile reads what the server wrote; it does not care where the descriptor's offset stands.
func ReadMemoryFile(fd int, into Value) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fmt.Errorf("reading memory file: %w", err)
	}
	b := make([]byte, st.Size)
	for n := 0; n < len(b); {
		k, err := unix.Pread(fd, b[n:], int64(n))
		if err != nil || k == 0 {
			return fmt.Errorf("reading memory file: %d of %d bytes: %w", n, len(b), err)
		}
		n += k
	}
	return Decode(b, into)
}
