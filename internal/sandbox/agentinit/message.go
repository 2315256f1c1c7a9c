//go:build linux && (amd64 || arm64)

package agentinit

import (
	"fmt"
	"io"

	"golang.org/x/sys/unix"
)

// Command is the command to start. It is sent in a memory file with the start
// message, followed by the descriptors of stdin, stdout, and stderr.
type Command struct {
	Argv, Env []string
	Dir       string
	// Processes is the maximum number of processes and threads, for an isolator
	// that cannot enforce this limit itself; 0 means that init sets no limit.
	Processes int64
}

// Op is the type of a message. The server sends go, start, and term. Init
// answers with ready or failed, then with started or refused, then with exit,
// then with empty.
type Op string

// The types of messages.
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

// Message is one packet of the control socket. Large values are passed in memory
// files, so that no packet exceeds MaxMessage bytes. Code, Signal, and Killed are
// set for OpExit only.
type Message struct {
	Op     Op
	Text   string
	Code   int
	Signal int
	Killed bool // OpTerm was received before the command ended
}

// Limits of a packet.
const (
	MaxMessage     = 16 << 10 // bytes
	MaxDescriptors = 64
)

// ReadMemoryFile decodes a memory file that the server wrote. It reads the whole
// file, independently of the file offset.
func ReadMemoryFile(fd int, into any) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fmt.Errorf("reading memory file: %w", err)
	}
	b := make([]byte, st.Size)
	for n := 0; n < len(b); {
		k, err := unix.Pread(fd, b[n:], int64(n))
		if err == nil && k == 0 {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return fmt.Errorf("reading memory file: %d of %d bytes: %w", n, len(b), err)
		}
		n += k
	}
	return Decode(b, into)
}
