package egress

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

const (
	tunnelChunk = 1 << 20         // bytes after which a copy is counted
	tunnelTick  = 5 * time.Second // after which it is counted at the latest
)

var errIdle = errors.New("nothing flowed for too long")

// tunnel is a connection whose bytes pass as they are.
type tunnel struct {
	session *Session
	client  net.Conn
	server  net.Conn
	moved   atomic.Int64 // when bytes flowed last, in nanoseconds
	broke   sync.Once
	err     error // the first, which ended both directions
}

// direction is one half of a tunnel. Between TCP connections the kernel moves
// the bytes, as long as no rate is set.
type direction struct {
	dst, src net.Conn
	pace     *pace
	total    *atomic.Int64 // of the session
	bytes    int64
}

// tunnel passes bytes both ways until both ends have said all, one breaks, or
// nothing flows for the idle time.
func (s *Session) tunnel(c *stream, f *flow, a *attempt, r *route) {
	f.led(r)
	t := &tunnel{session: s, client: c.Conn, server: r.conn}
	t.moved.Store(time.Now().UnixNano())
	there := direction{dst: r.conn, src: c.Conn, pace: s.up, total: &s.sent}
	back := direction{dst: c.Conn, src: r.conn, pace: s.down, total: &s.received}
	s.sent.Add(int64(-len(c.prefix))) // counted again as they are passed on
	var w sync.WaitGroup
	w.Go(func() { t.pass(&there, c.prefix) })
	t.pass(&back, a.first)
	w.Wait()
	f.finish(func(e *Entry) {
		e.RequestBytes, e.ResponseBytes = there.bytes, back.bytes
		switch {
		case s.life.Err() != nil:
			e.Error = "ended with the run"
		case t.err != nil:
			e.Error = reason(t.err)
		}
	})
}

// pass moves one direction to its end. An end that breaks takes both
// connections with it, so the other end learns that it was no proper end.
func (t *tunnel) pass(d *direction, first []byte) {
	err := t.copy(d, first)
	if err == nil {
		err = closeWrite(d.dst)
	}
	if err != nil && !errors.Is(err, net.ErrClosed) {
		t.broke.Do(func() {
			t.err = err
			abort(t.client)
			abort(t.server)
		})
	}
}

func (t *tunnel) copy(d *direction, first []byte) error {
	idle := t.session.gate.config.IdleTimeout
	_ = d.dst.SetWriteDeadline(time.Now().Add(idle))
	n, err := d.dst.Write(first)
	t.count(d, int64(n))
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return errIdle
	case err != nil:
		return err
	}
	var src io.Reader = d.src
	if d.pace != nil {
		src = &paced{d.src, d.pace, t.session.life}
	}
	for {
		began := time.Now()
		_ = d.dst.SetWriteDeadline(began.Add(idle))
		_ = d.src.SetReadDeadline(began.Add(min(idle, tunnelTick)))
		n, err := io.CopyN(d.dst, src, tunnelChunk)
		t.count(d, n)
		switch {
		case err == nil:
		case errors.Is(err, io.EOF):
			return nil
		case !errors.Is(err, os.ErrDeadlineExceeded):
			return err
		case time.Since(began) >= idle || time.Since(time.Unix(0, t.moved.Load())) >= idle:
			return errIdle // the first is a write that nobody took
		}
	}
}

func (t *tunnel) count(d *direction, n int64) {
	if n > 0 {
		d.bytes += n
		d.total.Add(n)
		t.moved.Store(time.Now().UnixNano())
	}
}
