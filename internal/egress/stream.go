package egress

import (
	"context"
	"io"
	"net"
	"sync"
	"time"
)

// stream is a sandbox's connection while its bytes pass through our hands:
// what was read ahead comes first, all are counted and held to the rate.
type stream struct {
	net.Conn
	session *Session
	prefix  []byte // read, and not yet given
}

// fill reads more of what comes into the prefix.
func (c *stream) fill() error {
	var b [4096]byte
	n, err := c.Conn.Read(b[:])
	c.session.sent.Add(int64(n))
	c.prefix = append(c.prefix, b[:n]...)
	if n > 0 {
		return nil
	}
	return err
}

func (c *stream) Read(p []byte) (int, error) {
	if len(c.prefix) > 0 {
		n := copy(p, c.prefix)
		c.prefix = c.prefix[n:]
		return n, nil
	}
	n, err := c.Conn.Read(c.session.up.cut(p))
	c.session.sent.Add(int64(n))
	c.session.up.wait(c.session.life, n)
	return n, err
}

func (c *stream) Write(p []byte) (written int, err error) {
	for len(p) > 0 && err == nil {
		part := c.session.down.cut(p)
		c.session.down.wait(c.session.life, len(part))
		var n int
		n, err = c.Conn.Write(part)
		c.session.received.Add(int64(n))
		written += n
		p = p[n:]
	}
	return written, err
}

// CloseWrite ends what is sent to the sandbox.
func (c *stream) CloseWrite() error { return closeWrite(c.Conn) }

// closeWrite ends one direction; a connection that has none is closed.
func closeWrite(c net.Conn) error {
	if h, ok := c.(interface{ CloseWrite() error }); ok {
		return h.CloseWrite()
	}
	return c.Close()
}

// replayed is a connection of which the first bytes were read already.
type replayed struct {
	net.Conn
	first []byte
}

func (c *replayed) Read(p []byte) (int, error) {
	if len(c.first) > 0 {
		n := copy(p, c.first)
		c.first = c.first[n:]
		return n, nil
	}
	return c.Conn.Read(p)
}

// CloseWrite ends what is sent.
func (c *replayed) CloseWrite() error { return closeWrite(c.Conn) }

// pace holds one direction of a run to a rate. A nil pace does not.
type pace struct {
	rate int64 // bytes a second

	mu   sync.Mutex // guards free
	free time.Time  // when all that was let through is paid for
}

const paceBurst = 100 * time.Millisecond // may be let through ahead of the rate

func newPace(rate int64) *pace {
	if rate == 0 {
		return nil
	}
	return &pace{rate: rate}
}

// cut shortens p to what is passed on at once.
func (p *pace) cut(b []byte) []byte {
	if p == nil {
		return b
	}
	return b[:min(int64(len(b)), max(1, min(32<<10, p.rate/10)))]
}

// wait takes n bytes from the allowance, and waits until they are due.
func (p *pace) wait(ctx context.Context, n int) {
	if p == nil || n == 0 {
		return
	}
	p.mu.Lock()
	now := time.Now()
	if early := now.Add(-paceBurst); p.free.Before(early) {
		p.free = early
	}
	p.free = p.free.Add(time.Duration(float64(n) / float64(p.rate) * float64(time.Second)))
	due := p.free.Sub(now)
	p.mu.Unlock()
	if due <= 0 {
		return
	}
	t := time.NewTimer(due)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// paced reads at a rate.
type paced struct {
	r    io.Reader
	pace *pace
	ctx  context.Context //nolint:containedctx // a reader has no other way to learn that its session ends
}

func (p *paced) Read(b []byte) (int, error) {
	n, err := p.r.Read(p.pace.cut(b))
	p.pace.wait(p.ctx, n)
	return n, err
}
