//go:build linux

// Package hostend opens the server's end of a captured network. It is separate
// from package capture so that init does not have to import package net.
package hostend

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"

	"github.com/stint-dev/stint/internal/sandbox"
)

// Open returns the network for the sockets that capture.Redirect returned. The
// caller may close the files at any time. The result is safe for concurrent use
// and keeps the network namespace alive until it is closed.
func Open(tcp, dns *os.File) (*sandbox.Network, error) {
	l, err := net.FileListener(tcp)
	if err != nil {
		return nil, fmt.Errorf("opening a captured network: %w", err)
	}
	t, ok := l.(*net.TCPListener)
	if !ok {
		return nil, errors.Join(errors.New("opening a captured network: its socket is not TCP's"), l.Close())
	}
	p, err := net.FilePacketConn(dns)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("opening a captured network: %w", err), l.Close())
	}
	return &sandbox.Network{TCP: &listener{t}, DNS: p}, nil
}

type listener struct{ *net.TCPListener }

// Accept returns the next connection and its original destination. It closes
// connections that programs opened to the socket's own loopback address, which were not
// redirected.
func (l *listener) Accept() (net.Conn, netip.AddrPort, error) {
	for {
		c, err := l.AcceptTCP()
		if err != nil {
			return nil, netip.AddrPort{}, fmt.Errorf("accepting a sandbox's connection: %w", err)
		}
		target, err := originalTarget(c)
		if err == nil && !target.Addr().IsLoopback() {
			return c, target, nil
		}
		_ = c.Close() // the connection was not redirected
	}
}

// originalTarget returns the destination address of a connection before the
// redirect.
func originalTarget(c *net.TCPConn) (netip.AddrPort, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return netip.AddrPort{}, err
	}
	// The option's value is a sockaddr_in of 16 bytes: family, port, address,
	// padding. GetsockoptIPv6Mreq can read any value of this size.
	var answer *unix.IPv6Mreq
	cerr := raw.Control(func(fd uintptr) {
		answer, err = unix.GetsockoptIPv6Mreq(int(fd), unix.SOL_IP, unix.SO_ORIGINAL_DST)
	})
	if err := errors.Join(cerr, err); err != nil {
		return netip.AddrPort{}, err
	}
	b := answer.Multiaddr
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[4:8])), binary.BigEndian.Uint16(b[2:4])), nil
}
