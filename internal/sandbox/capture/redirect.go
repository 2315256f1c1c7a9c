//go:build linux

package capture

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// The ports of the two sockets on 127.0.0.1. Programs rarely use a fixed port
// this high, and by default the kernel does not assign ports above 60999.
const (
	tcpPort = 65233
	dnsPort = 65253
)

// backlog is the number of connections that the kernel queues until they are
// accepted.
const backlog = 1024

// Redirect redirects the traffic of the calling thread's network namespace to two
// new sockets and returns their descriptors. The caller needs CAP_NET_ADMIN in the
// namespace. Redirect can be called only once per namespace.
func Redirect() (tcp, dns int, err error) {
	if err := RaiseLoopback(); err != nil {
		return -1, -1, err
	}
	if tcp, err = boundSocket(unix.SOCK_STREAM, tcpPort); err != nil {
		return -1, -1, err
	}
	if dns, err = boundSocket(unix.SOCK_DGRAM, dnsPort); err != nil {
		unix.Close(tcp)
		return -1, -1, err
	}
	err = unix.Listen(tcp, backlog)
	if err == nil {
		err = addLocalRoute()
	}
	if err == nil {
		err = addRules()
	}
	if err != nil {
		unix.Close(tcp)
		unix.Close(dns)
		return -1, -1, fmt.Errorf("capturing the network: %w", err)
	}
	return tcp, dns, nil
}

// RaiseLoopback enables the loopback interface (127.0.0.1 and ::1) in the calling
// thread's network namespace.
func RaiseLoopback() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("enabling the loopback interface: %w", err)
	}
	defer unix.Close(fd)
	req, err := unix.NewIfreq("lo")
	if err != nil {
		return fmt.Errorf("enabling the loopback interface: %w", err)
	}
	req.SetUint16(unix.IFF_UP)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, req); err != nil {
		return fmt.Errorf("enabling the loopback interface: %w", err)
	}
	return nil
}

// boundSocket returns a non-blocking socket that is bound to a port of 127.0.0.1.
func boundSocket(kind, port int) (int, error) {
	fd, err := unix.Socket(unix.AF_INET, kind|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return -1, fmt.Errorf("capturing the network: %w", err)
	}
	if err := unix.Bind(fd, &unix.SockaddrInet4{Port: port, Addr: loopback}); err != nil {
		unix.Close(fd)
		return -1, fmt.Errorf("capturing the network: port %d: %w", port, err)
	}
	return fd, nil
}

var loopback = [4]byte{127, 0, 0, 1}
