//go:build linux && (amd64 || arm64)

package docker

import (
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/stint-dev/stint/internal/sandbox/agentinit"
)

// The door is the folder by which the warden gets in and calls home: its
// program and the control socket. Only root may look into it, and once the
// warden has called it is empty.
const (
	doorDir    = "/.stint" // in the container
	socketName = "socket"
)

// installWarden puts the warden's program where each sandbox can link it.
func (d *Driver) installWarden() error {
	source := d.c.Binary
	if source == "" {
		source = "/proc/self/exe"
	}
	if err := checkStatic(source); err != nil {
		return err
	}
	target := d.wardenPath()
	from, err := os.Open(source)
	if err != nil {
		return fmt.Errorf("installing the warden: %w", err)
	}
	defer from.Close()
	to, err := os.OpenFile(target+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o700) //nolint:gosec // it is a program
	if err != nil {
		return fmt.Errorf("installing the warden: %w", err)
	}
	_, err = io.Copy(to, from)
	// Only the containers' root may run it: no agent, though it can name it as
	// /proc/1/exe.
	if err = errors.Join(err, to.Chown(d.daemon.first, d.daemon.first), to.Close()); err == nil {
		err = os.Rename(target+".new", target)
	}
	if err != nil {
		return fmt.Errorf("installing the warden: %w", err)
	}
	return nil
}

func (d *Driver) wardenPath() string { return filepath.Join(d.dir, agentinit.GuestName) }

// checkStatic refuses programs that need libraries, of which a container may
// have others or none.
func checkStatic(path string) error {
	f, err := elf.Open(path)
	if err != nil {
		return fmt.Errorf("reading the warden's program: %w", err)
	}
	defer func() { _ = f.Close() }() // it was only read
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return errors.New("the warden's program must be linked statically (built with CGO_ENABLED=0)")
		}
	}
	return nil
}

// door is a sandbox's, as the server holds it.
type door struct {
	dir      string
	listener *net.UnixListener
}

func (d *Driver) openDoor(dir string) (*door, error) {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, fmt.Errorf("making the control folder: %w", err)
	}
	if err := os.Link(d.wardenPath(), filepath.Join(dir, agentinit.GuestName)); err != nil {
		return nil, fmt.Errorf("linking the warden: %w", err)
	}
	// A user namespace of the daemon's makes root another.
	if err := os.Chown(dir, d.daemon.first, d.daemon.first); err != nil {
		return nil, fmt.Errorf("giving the control folder: %w", err)
	}
	folder, err := os.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("opening the control folder: %w", err)
	}
	defer folder.Close()
	// By this name no folder is too deep for a socket's address.
	address := fmt.Sprintf("/proc/self/fd/%d/%s", folder.Fd(), socketName)
	l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: address, Net: "unixpacket"})
	if err != nil {
		return nil, fmt.Errorf("making the control socket: %w", err)
	}
	l.SetUnlinkOnClose(false) // that name is soon another folder's
	if err := os.Chown(filepath.Join(dir, socketName), d.daemon.first, d.daemon.first); err != nil {
		_ = l.Close() // nobody has called
		return nil, fmt.Errorf("giving the control socket: %w", err)
	}
	return &door{dir, l}, nil
}

// call is the warden's.
type call struct {
	conn    *net.UnixConn
	pid     int
	process *os.File // its pidfd
}

// await waits for the warden's call, and asks from time to time whether it can
// still come.
func (o *door) await(ctx context.Context, alive func(context.Context) error) (*call, error) {
	stop := context.AfterFunc(ctx, func() { _ = o.listener.Close() }) // ends the waiting
	defer stop()
	for {
		if err := o.listener.SetDeadline(time.Now().Add(time.Second)); err != nil {
			return nil, fmt.Errorf("waiting for the warden: %w", errors.Join(context.Cause(ctx), err))
		}
		conn, err := o.listener.AcceptUnix()
		switch {
		case err == nil:
			return identify(conn)
		case ctx.Err() != nil:
			return nil, fmt.Errorf("waiting for the warden: %w", context.Cause(ctx))
		case !errors.Is(err, os.ErrDeadlineExceeded):
			return nil, fmt.Errorf("waiting for the warden: %w", err)
		}
		if err := alive(ctx); err != nil {
			return nil, err
		}
	}
}

// identify asks the kernel who called.
func identify(conn *net.UnixConn) (*call, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, err
	}
	c := &call{conn: conn}
	cerr := raw.Control(func(fd uintptr) {
		var who *unix.Ucred
		if who, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err != nil {
			return
		}
		if c.pid = int(who.Pid); c.pid == 0 {
			err = errors.New("the Docker daemon's processes cannot be seen from here: the server must not be in a PID namespace of its own")
			return
		}
		var pidfd int
		if pidfd, err = unix.PidfdOpen(c.pid, 0); err == nil {
			c.process = os.NewFile(uintptr(pidfd), "warden")
		}
	})
	if err = errors.Join(cerr, err); err != nil {
		_ = conn.Close() // nothing was said
		return nil, fmt.Errorf("finding the warden: %w", err)
	}
	return c, nil
}

// close shuts the door for good: what the container still sees of it is empty.
func (o *door) close() error {
	_ = o.listener.Close() // the one call has come
	err := errors.Join(removeFile(filepath.Join(o.dir, socketName)), removeFile(filepath.Join(o.dir, agentinit.GuestName)))
	if err != nil {
		return fmt.Errorf("closing the control folder: %w", err)
	}
	return nil
}
