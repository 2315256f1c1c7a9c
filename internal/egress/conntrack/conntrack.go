// Package conntrack answers: how do connections to servers end with what they were
// opened for?
package conntrack

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
)

// ErrClosed is the error of a dial after the end, or that the end found open.
var ErrClosed = errors.New("what the connection was for has ended")

// DialFunc opens a connection to a port of a host, which is a name or an address.
type DialFunc func(ctx context.Context, host string, port uint16) (net.Conn, error)

// Set is the connections that were opened for one thing, such as a client's
// connection. Its methods may be called at once.
type Set struct {
	life context.Context //nolint:containedctx // dialing ends with it
	end  context.CancelFunc

	mu      sync.Mutex // guards what follows, and dialing's start against its end
	conns   map[*Conn]struct{}
	ended   bool
	dialing sync.WaitGroup
}

// New makes a set; its dials end with ctx, too.
func New(ctx context.Context) *Set {
	s := &Set{conns: map[*Conn]struct{}{}}
	s.life, s.end = context.WithCancel(ctx)
	return s
}

// Dial opens a connection to address, which is host:port, and keeps it until it
// is closed.
func (s *Set) Dial(ctx context.Context, address string, dial DialFunc) (net.Conn, error) {
	if !s.begin() {
		return nil, ErrClosed
	}
	defer s.dialing.Done()
	host, digits, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("read where to connect to: %w", err)
	}
	port, err := strconv.ParseUint(digits, 10, 16)
	if err != nil {
		return nil, fmt.Errorf("read the port to connect to: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.life, cancel)()
	c, err := dial(ctx, host, uint16(port))
	if err != nil {
		return nil, err
	}
	return s.keep(c)
}

func (s *Set) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ended {
		s.dialing.Add(1)
	}
	return !s.ended
}

func (s *Set) keep(c net.Conn) (net.Conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		c.Close()
		return nil, ErrClosed
	}
	kept := &Conn{c, s}
	s.conns[kept] = struct{}{}
	return kept, nil
}

// Close ends all connections, lets no more begin and waits for those that are
// being opened.
func (s *Set) Close() {
	s.mu.Lock()
	s.ended = true
	open := s.conns
	s.conns = nil
	s.mu.Unlock()
	s.end()
	for c := range open {
		c.Conn.Close()
	}
	s.dialing.Wait()
}

// Conn is a connection of a set, which forgets it when it is closed.
type Conn struct {
	net.Conn
	set *Set
}

// Close closes the connection.
func (c *Conn) Close() error {
	c.set.mu.Lock()
	delete(c.set.conns, c)
	c.set.mu.Unlock()
	return c.Conn.Close()
}

// CloseWrite ends what is sent, where the connection can.
func (c *Conn) CloseWrite() error {
	if w, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return w.CloseWrite()
	}
	return nil
}
