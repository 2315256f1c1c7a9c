//go:build linux && (amd64 || arm64)

package agentinit

import (
	"errors"
	"fmt"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"
)

// Init executes the commands of the server at the other end of the control
// socket.
type Init struct {
	Control   int  // blocking SOCK_SEQPACKET socket
	UserRange bool // init is user 0 and the agent another user of a range of user IDs; otherwise both are the same user
	// BeforeStart is called before the command is started, to drop privileges
	// that only the preparation needs. It may be nil.
	BeforeStart func() error
	// AfterStart is called after the command was started and before the server
	// is notified, to drop privileges that only the start needs. It may be nil.
	AfterStart func() error
	// Extra handles messages that this package does not know. Serve closes fds
	// after the call. If Extra is nil, such messages are refused.
	Extra func(m Message, fds []int) error

	isTerminating atomic.Bool // OpTerm was received
}

// Serve handles messages until the socket closes. The caller then exits, which
// kills all other processes of its PID namespace.
func (in *Init) Serve() {
	for {
		m, fds, err := in.Receive()
		if err != nil {
			return
		}
		if err := in.handle(m, fds); err != nil {
			_ = in.Send(Message{Op: OpRefused, Text: err.Error()})
		}
		for _, fd := range fds {
			unix.Close(fd)
		}
	}
}

func (in *Init) handle(m Message, fds []int) error {
	switch m.Op {
	case OpStart:
		return in.startCommand(fds)
	case OpTerm:
		in.isTerminating.Store(true)
		_ = unix.Kill(-1, unix.SIGTERM) // fails if there is no other process
		_ = unix.Kill(-1, unix.SIGCONT) // stopped processes must receive the signal too
		return nil
	}
	if in.Extra == nil {
		return fmt.Errorf("unknown message %q", m.Op)
	}
	return in.Extra(m, fds)
}

func (in *Init) startCommand(fds []int) error {
	if len(fds) != 4 {
		return fmt.Errorf("the command came with %d descriptors", len(fds))
	}
	var o Command
	if err := ReadMemoryFile(fds[0], &o); err != nil {
		return err
	}
	if in.BeforeStart != nil {
		if err := in.BeforeStart(); err != nil {
			return err
		}
	}
	if err := limitProcesses(o.Processes); err != nil {
		return err
	}
	pid, err := forkCommand(o, [3]int{fds[1], fds[2], fds[3]}, in.UserRange)
	if err != nil {
		return err
	}
	if in.AfterStart != nil {
		if err := in.AfterStart(); err != nil {
			return err
		}
	}
	if err := in.Send(Message{Op: OpStarted}); err != nil {
		return err
	}
	go in.reap(pid)
	return nil
}

// reap waits for all child processes, including adopted orphans. It reports the
// exit of the command, and returns after it has reported that no child is left.
func (in *Init) reap(command int) {
	for {
		var ws syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &ws, syscall.WALL, nil)
		switch {
		case err == syscall.EINTR:
		case err != nil: // ECHILD: there are no processes left
			_ = in.Send(Message{Op: OpEmpty})
			return
		case pid == command:
			m := Message{Op: OpExit, Code: ws.ExitStatus(), Killed: in.isTerminating.Load()}
			if ws.Signaled() {
				m.Signal = int(ws.Signal())
				m.Code = 128 + m.Signal
			}
			_ = in.Send(m) // fails only if the server is gone; then Serve returns and init exits
		}
	}
}

// Send sends a message with optional descriptors. It cuts a text that is too long.
func (in *Init) Send(m Message, fds ...int) error {
	m.Text = clip(m.Text, maxText)
	var rights []byte
	if len(fds) > 0 {
		rights = unix.UnixRights(fds...)
	}
	return unix.Sendmsg(in.Control, Encode(&m), rights, nil, unix.MSG_NOSIGNAL)
}

// Receive waits for a message and returns it with its descriptors, which the caller
// must close, even after an error.
func (in *Init) Receive() (Message, []int, error) {
	var m Message
	b, oob := make([]byte, MaxMessage), make([]byte, unix.CmsgSpace(MaxDescriptors*4))
	for {
		n, oobn, _, _, err := unix.Recvmsg(in.Control, b, oob, unix.MSG_CMSG_CLOEXEC)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return m, nil, fmt.Errorf("control socket: %w", err)
		case n == 0:
			return m, nil, fmt.Errorf("control socket: closed")
		}
		fds, err := Descriptors(oob[:oobn])
		if err != nil {
			return m, nil, err
		}
		return m, fds, Decode(b[:n], &m)
	}
}

// Descriptors returns the descriptors of a packet's control message.
func Descriptors(oob []byte) ([]int, error) {
	if len(oob) == 0 {
		return nil, nil
	}
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil, fmt.Errorf("control socket: %w", err)
	}
	if len(messages) != 1 {
		return nil, fmt.Errorf("control socket: %d control messages, want 1", len(messages))
	}
	return unix.ParseUnixRights(&messages[0])
}
