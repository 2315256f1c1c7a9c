// Package conntrack tracks connections to servers, so that one call closes all of
// them.
package conntrack

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
)

// ErrClosed is the error of Dial if the set is closed.
var ErrClosed = errors.New("the set of connections is closed")

// DialFunc opens a connection to a port of a host, which is a name or an address. It
// returns the connection and the policy rule that allowed it.
type DialFunc func(ctx context.Context, host string, port uint16) (c net.Conn, rule string, err error)

// Set contains the connections that were opened for one purpose, such as a
// client's connection. It is safe for concurrent use.
type Set struct {
	life context.Context //nolint:containedctx // ends dials in progress
	end  context.CancelFunc

	mu      sync.Mutex // guards the fields below, and prevents dials from beginning during Close
	conns   map[*Conn]struct{}
	ended   bool
	dialing sync.WaitGroup
}

// New returns an empty set. If ctx ends, dials in progress end too.
func New(ctx context.Context) *Set {
	s := &Set{conns: map[*Conn]struct{}{}}
	s.life, s.end = context.WithCancel(ctx)
	return s
}

// Dial calls dial for an address of the form host:port, and tracks the connection until
// it is closed. The type of the returned connection is *Conn.
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

// Close closes all connections of the set, ends dials in progress, and waits for their
// end. Later dials fail with ErrClosed.
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

// Conn is a connection of a Set.
type Conn struct {
	net.Conn
	Rule string // the policy rule that allowed the connection
	set  *Set
}

// Close closes the connection and removes it from its set.
func (c *Conn) Close() error {
	c.set.mu.Lock()
	delete(c.set.conns, c)
	c.set.mu.Unlock()
	return c.Conn.Close()
}

// CloseWrite closes the sending direction of the connection. If the connection does not
// support this, CloseWrite does nothing.
func (c *Conn) CloseWrite() error {
	if w, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return w.CloseWrite()
	}
	return nil
}
