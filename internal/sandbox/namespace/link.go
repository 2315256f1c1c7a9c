//go:build linux && (amd64 || arm64)

package namespace

import (
	"errors"
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"

	"github.com/stint-dev/stint/internal/sandbox/namespace/inside"
)

// link is the server's end of the control socket.
type link struct{ conn *net.UnixConn }

// newLink makes the socket and gives the end that init is born with.
func newLink() (*link, *os.File, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("making control socket: %w", err)
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "control"), os.NewFile(uintptr(fds[1]), "control")
	defer ours.Close()
	c, err := net.FileConn(ours)
	if err != nil {
		theirs.Close()
		return nil, nil, fmt.Errorf("making control socket: %w", err)
	}
	return &link{c.(*net.UnixConn)}, theirs, nil
}

func (l *link) send(m inside.Message, files ...*os.File) error {
	var rights []byte
	if len(files) > 0 {
		fds := make([]int, len(files))
		for i, f := range files {
			fds[i] = int(f.Fd())
		}
		rights = unix.UnixRights(fds...)
	}
	_, _, err := l.conn.WriteMsgUnix(inside.Encode(&m), rights, nil)
	return err
}

func (l *link) receive() (inside.Message, error) {
	var m inside.Message
	b := make([]byte, inside.MaxMessage)
	n, err := l.conn.Read(b)
	if err != nil {
		return m, err
	}
	return m, inside.Decode(b[:n], &m)
}

// memoryFile makes an unnamed file, for handing init more than a packet.
func memoryFile(name string, content inside.Coded) (*os.File, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("making memory file: %w", err)
	}
	f := os.NewFile(uintptr(fd), name)
	if content == nil {
		return f, nil
	}
	if _, err := f.WriteAt(inside.Encode(content), 0); err != nil {
		return nil, errors.Join(fmt.Errorf("filling memory file: %w", err), f.Close())
	}
	return f, nil
}
