//go:build linux && (amd64 || arm64)

package agentinit

import (
	"errors"
	"fmt"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"
)

// Init obeys the server at the other end of a socket.
type Init struct {
	Control   int  // blocking socket of packets
	UserRange bool // it is user 0 of a range and becomes the agent's user; else it is the agent's user
	// Starting runs before the command is started; the place to give up what
	// only preparing needed. It may be nil.
	BeforeStart func() error
	// Started runs once the command was, before the server hears of it; the
	// place to give up what only starting needed. It may be nil.
	AfterStart func() error
	// Other obeys messages that this package does not know; nil refuses them.
	// The descriptors are closed after it.
	Extra func(m Message, fds []int) error

	isTerminating atomic.Bool // a term was asked for
}

// Serve obeys until the socket closes. The caller ends then, and with it all
// others of its PID namespace.
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
		_ = unix.Kill(-1, unix.SIGTERM) // all but ourselves; none there is none to tell
		_ = unix.Kill(-1, unix.SIGCONT) // a stopped process would not see it
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

// reap collects every process that ends inside; all orphans become ours.
func (in *Init) reap(command int) {
	for {
		var ws syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &ws, syscall.WALL, nil)
		switch {
		case err == syscall.EINTR:
		case err != nil: // ECHILD: nothing lives, so nothing can come to life
			_ = in.Send(Message{Op: OpEmpty})
			return
		case pid == command:
			m := Message{Op: OpExit, Code: ws.ExitStatus(), Killed: in.isTerminating.Load()}
			if ws.Signaled() {
				m.Signal = int(ws.Signal())
				m.Code = 128 + m.Signal
			}
			_ = in.Send(m) // a server that is gone has closed the socket, which ends us
		}
	}
}

// Say sends a message, with descriptors if there are any.
func (in *Init) Send(m Message, fds ...int) error {
	m.Text = clip(m.Text, maxText)
	var rights []byte
	if len(fds) > 0 {
		rights = unix.UnixRights(fds...)
	}
	return unix.Sendmsg(in.Control, Encode(&m), rights, nil, unix.MSG_NOSIGNAL)
}

// Hear waits for a message. Its descriptors are the caller's to close.
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

// Descriptors gives the descriptors that came with a packet.
func Descriptors(oob []byte) ([]int, error) {
	if len(oob) == 0 {
		return nil, nil
	}
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil || len(messages) != 1 {
		return nil, fmt.Errorf("control socket: %d control messages: %w", len(messages), err)
	}
	return unix.ParseUnixRights(&messages[0])
}
