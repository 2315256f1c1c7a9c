// Package conntrack tracks connections to servers, so that they are closed
// together.
package conntrack

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
)

// ErrClosed is the error of a dial during or after Close.
var ErrClosed = errors.New("the set of connections is closed")

// DialFunc opens a connection to a port of a host, which is a name or an address,
// and returns the rule that allowed it.
type DialFunc func(ctx context.Context, host string, port uint16) (c net.Conn, rule string, err error)

// Set contains the connections that were opened for one purpose, such as a
// client's connection. It is safe for concurrent use.
type Set struct {
	life context.Context //nolint:containedctx // ends dials in progress
	end  context.CancelFunc

	mu      sync.Mutex // guards all below, and the start of dials against Close
	conns   map[*Conn]struct{}
	ended   bool
	dialing sync.WaitGroup
}

// New returns an empty set. The end of ctx ends its dials, too.
func New(ctx context.Context) *Set {
	s := &Set{conns: map[*Conn]struct{}{}}
	s.life, s.end = context.WithCancel(ctx)
	return s
}

// Dial opens a connection to address (host:port) and tracks it until it is
// closed.
func (s *Set) Dial(ctx context.Context, address string, dial DialFunc) (net.Conn, error) {
	if !s.begin() {
		return nil, ErrClosed
	}
	defer s.dialing.Done()
	host, digits, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("parsing the address: %w", err)
	}
	port, err := strconv.ParseUint(digits, 10, 16)
	if err != nil {
		return nil, fmt.Errorf("parsing the port: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.life, cancel)()
	c, rule, err := dial(ctx, host, uint16(port))
	if err != nil {
		return nil, err
	}
	return s.keep(c, rule)
}

func (s *Set) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ended {
		s.dialing.Add(1)
	}
	return !s.ended
}

func (s *Set) keep(c net.Conn, rule string) (net.Conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		c.Close()
		return nil, ErrClosed
	}
	kept := &Conn{c, rule, s}
	s.conns[kept] = struct{}{}
	return kept, nil
}

// Close closes all connections and waits for dials in progress, which fail with
// ErrClosed.
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

// Conn is a connection of a set. Close removes it from the set.
type Conn struct {
	net.Conn
	Rule string // that allowed it
	set  *Set
}

// Close closes the connection.
func (c *Conn) Close() error {
	c.set.mu.Lock()
	delete(c.set.conns, c)
	c.set.mu.Unlock()
	return c.Conn.Close()
}

// CloseWrite closes the sending direction, if the connection supports it.
func (c *Conn) CloseWrite() error {
	if w, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return w.CloseWrite()
	}
	return nil
}
