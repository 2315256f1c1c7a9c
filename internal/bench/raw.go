package bench

import (
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// raw is the least that streams could cost: sockets, and one write for each
// event and socket, from one thread.
type raw struct {
	listener net.Listener
	fds      []int
}

func (r *raw) host(in io.Reader, out io.Writer) error {
	defer func() {
		for _, fd := range r.fds {
			_ = unix.Close(fd)
		}
	}()
	return takeOrders(in, out, hosted{Address: r.listener.Addr().String()}, r.publish)
}

func (r *raw) publish(o order) (done, error) {
	if o.Do == doAccept {
		return done{}, r.accept(o.Streams)
	}
	if len(r.fds) == 0 {
		return done{}, errors.New("nobody listens")
	}
	n := 0
	for begin := time.Now(); time.Since(begin) < o.For; {
		if o.Do == doBroadcast {
			if err := r.broadcast(rawFrame(n)); err != nil {
				return done{Events: n}, err
			}
			n++
			continue
		}
		for range 100 { // events between two looks at the clock
			if err := writeAll(r.fds[n%len(r.fds)], rawFrame(n)); err != nil {
				return done{Events: n}, err
			}
			n++
		}
	}
	return done{Events: n}, nil
}

func rawFrame(n int) []byte {
	e := output(frameBytes)
	return fmt.Appendf(make([]byte, 0, frameBytes+64), "event: output\ndata: %s\nid: %d\n\n", e.Data, n)
}

func (r *raw) broadcast(frame []byte) error {
	for _, fd := range r.fds {
		if err := writeAll(fd, frame); err != nil {
			return err
		}
	}
	return nil
}

// accept takes so many readers and answers their requests unread.
func (r *raw) accept(n int) error {
	for len(r.fds) < n {
		c, err := r.listener.Accept()
		if err != nil {
			return err
		}
		file, err := c.(*net.TCPConn).File()
		if err != nil {
			return err
		}
		fd, err := unix.Dup(int(file.Fd()))
		file.Close()
		c.Close()
		if err != nil {
			return err
		}
		if err := unix.SetNonblock(fd, true); err != nil {
			return err
		}
		r.fds = append(r.fds, fd)
		if err := writeAll(fd, []byte("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\nevent: status\ndata: {\"status\":\"running\"}\n\n")); err != nil {
			return err
		}
	}
	return nil
}

// writeAll writes to a socket, waiting for its reader when that lags behind.
func writeAll(fd int, b []byte) error {
	for len(b) > 0 {
		n, err := unix.Write(fd, b)
		switch {
		case errors.Is(err, unix.EAGAIN):
			if _, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}, 1000); err != nil && !errors.Is(err, unix.EINTR) {
				return err
			}
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return err
		default:
			b = b[n:]
		}
	}
	return nil
}
