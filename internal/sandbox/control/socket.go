//go:build linux && (amd64 || arm64)

package control

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"

	"golang.org/x/sys/unix"

	"github.com/stint-dev/stint/internal/sandbox/agentinit"
)

// socket is the server's end of the control socket.
type socket struct{ conn *net.UnixConn }

// NewSocketPair returns the server's end of a new control socket, and the end
// that init inherits.
func NewSocketPair() (*net.UnixConn, *os.File, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("creating control socket: %w", err)
	}
	local, remote := os.NewFile(uintptr(fds[0]), "control"), os.NewFile(uintptr(fds[1]), "control")
	defer local.Close()
	c, err := net.FileConn(local)
	if err != nil {
		remote.Close()
		return nil, nil, fmt.Errorf("creating control socket: %w", err)
	}
	return c.(*net.UnixConn), remote, nil
}

func (l *socket) send(m agentinit.Message, files ...*os.File) error {
	var rights []byte
	if len(files) > 0 {
		fds := make([]int, len(files))
		for i, f := range files {
			fds[i] = int(f.Fd())
		}
		rights = unix.UnixRights(fds...)
	}
	_, _, err := l.conn.WriteMsgUnix(agentinit.Encode(&m), rights, nil)
	return err
}

// receive returns the next message and its descriptors, which the caller closes.
func (l *socket) receive() (agentinit.Message, []*os.File, error) {
	var m agentinit.Message
	b, oob := make([]byte, agentinit.MaxMessage), make([]byte, unix.CmsgSpace(agentinit.MaxDescriptors*4))
	n, oobn, _, _, err := l.conn.ReadMsgUnix(b, oob)
	if errors.Is(err, unix.ECONNRESET) {
		// Init ended without reading all messages. The kernel reports this
		// once, before the messages that init sent.
		n, oobn, _, _, err = l.conn.ReadMsgUnix(b, oob)
	}
	if err == nil && n == 0 {
		err = io.EOF
	}
	if err != nil {
		return m, nil, err
	}
	fds, err := agentinit.Descriptors(oob[:oobn])
	if err != nil {
		return m, nil, err
	}
	files := make([]*os.File, len(fds))
	for i, fd := range fds {
		unix.CloseOnExec(fd)
		files[i] = os.NewFile(uintptr(fd), "received")
	}
	return m, files, agentinit.Decode(b[:n], &m)
}

// MemoryFile returns a file in memory with the encoded content, for values that are
// too large for a packet. name is only for debugging. If content is nil, the file
// is empty. The caller closes the file.
func MemoryFile(name string, content any) (*os.File, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("creating memory file: %w", err)
	}
	f := os.NewFile(uintptr(fd), name)
	if content == nil {
		return f, nil
	}
	if _, err := f.WriteAt(agentinit.Encode(content), 0); err != nil {
		return nil, errors.Join(fmt.Errorf("filling memory file: %w", err), f.Close())
	}
	return f, nil
}
