package egress

import (
	"context"
	"errors"
	"net"
	"os"
	"time"

	"github.com/stint-dev/stint/internal/egress/policy"
)

const maxGreeting = 4 << 10

var (
	errServerFirst = errors.New("egress: the server sent bytes first")
	pastDeadline   = time.Unix(1, 0)
)

// startDial dials the destination and reads the server's first bytes, in the background,
// while the caller reads the client's opening. Therefore protocols in which the server
// sends first need not wait for a time-out. If the connection was dialed already, r is
// this connection; otherwise r is nil.
func (c *connection) startDial(ctx context.Context, r *serverConn) {
	ctx, c.cancelDial = context.WithCancel(ctx)
	c.dialed, c.serverConn = make(chan struct{}), r
	c.uplink.work.Go(func() {
		if c.serverConn == nil {
			c.serverConn, c.dialErr = c.uplink.dial(ctx, c.dest)
		}
		first := c.readGreeting(ctx)
		close(c.dialed)
		if first {
			c.interruptOpening()
		}
	})
}

// failDial is called instead of startDial if the policy refused the destination. It
// sets the refusal as the result of the dial.
func (c *connection) failDial(r *policy.Refusal) {
	c.cancelDial, c.dialed, c.dialErr = func() {}, make(chan struct{}), *r
	close(c.dialed)
}

// readGreeting reads the server's first bytes. It stops waiting when the client's
// opening is known, and then returns false. It returns true if the server sent bytes,
// closed the connection, or cannot be reached.
func (c *connection) readGreeting(ctx context.Context) bool {
	if c.dialErr != nil {
		return true
	}
	server := c.serverConn.conn
	context.AfterFunc(ctx, func() { server.Close() })
	c.mu.Lock()
	c.server = server
	opened := c.opened
	c.mu.Unlock()
	if opened {
		return false
	}
	b := make([]byte, maxGreeting)
	n, err := server.Read(b)
	c.greeting = b[:n:n]
	return n > 0 || !errors.Is(err, os.ErrDeadlineExceeded)
}

// interruptOpening ends the read of the client's opening.
func (c *connection) interruptOpening() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.serverFirst = true
	if !c.opened {
		_ = c.SetReadDeadline(pastDeadline)
	}
}

// readMore reads more bytes of the client's opening until the deadline. If serverFirst is
// set, one call returns errServerFirst.
func (c *connection) readMore(deadline time.Time) error {
	c.mu.Lock()
	if c.serverFirst && !c.reported {
		c.reported = true
		c.mu.Unlock()
		return errServerFirst
	}
	_ = c.SetReadDeadline(deadline)
	c.mu.Unlock()
	err := c.readAhead()
	if errors.Is(err, os.ErrDeadlineExceeded) && time.Now().Before(deadline) {
		return nil // interruptOpening ended the read: the next call returns errServerFirst
	}
	return err
}

// finishOpening marks the client's opening as known and ends the wait for the server's
// first bytes.
func (c *connection) finishOpening() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.opened = true
	_ = c.SetReadDeadline(time.Time{})
	if c.server != nil {
		_ = c.server.SetReadDeadline(pastDeadline)
	}
}

// dialFailed reports whether the dial has ended with an error.
func (c *connection) dialFailed() bool {
	select {
	case <-c.dialed:
		return c.dialErr != nil
	default:
		return false
	}
}

// dialRefused returns the policy's refusal if the dial has ended with a refusal, and nil
// otherwise.
func (c *connection) dialRefused() *policy.Refusal {
	if !c.dialFailed() {
		return nil
	}
	if r, ok := errors.AsType[policy.Refusal](c.dialErr); ok {
		return &r
	}
	return nil
}

// waitDial waits for the end of the dial and returns its result.
func (c *connection) waitDial() (*serverConn, error) {
	<-c.dialed
	if c.dialErr != nil {
		return nil, c.dialErr
	}
	_ = c.serverConn.conn.SetReadDeadline(time.Time{})
	return c.serverConn, nil
}

// takeServerConn returns the dialed connection to its first caller, after waiting for
// the dial. Later calls return nil at once.
func (c *connection) takeServerConn(ctx context.Context) (*serverConn, error) {
	c.mu.Lock()
	taken := c.serverTaken
	c.serverTaken = true
	c.mu.Unlock()
	if taken {
		return nil, nil
	}
	select {
	case <-c.dialed:
		return c.waitDial()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// closeDial ends the dial, waits for its end, and closes the connection to the server.
func (c *connection) closeDial() {
	c.cancelDial()
	<-c.dialed
	if c.serverConn != nil {
		c.serverConn.conn.Close()
	}
}

// greetedConn is a connection to a server from which the first bytes were read already.
// Read returns these bytes first.
type greetedConn struct {
	net.Conn
	greeting []byte
}

func (c *greetedConn) Read(p []byte) (int, error) {
	if len(c.greeting) > 0 {
		n := copy(p, c.greeting)
		c.greeting = c.greeting[n:]
		return n, nil
	}
	return c.Conn.Read(p)
}

// CloseWrite closes the sending direction of the connection to the server.
func (c *greetedConn) CloseWrite() error { return closeWrite(c.Conn) }
