package egress

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-dev/stint/internal/egress/log"
)

const (
	tunnelChunk = 1 << 20         // bytes after which a copy is counted
	tunnelTick  = 5 * time.Second // after which it is counted at the latest
)

var errIdle = errors.New("no bytes were transferred for too long")

// tunnel copies bytes unchanged between a client and a server.
type tunnel struct {
	uplink   *Uplink
	client   net.Conn
	server   net.Conn
	lastByte atomic.Int64 // when bytes were last transferred, in Unix nanoseconds
	fail     sync.Once
	err      error // the first error, which closed both connections
}

// direction is one half of a tunnel. Between TCP connections without a rate, the
// kernel copies the bytes.
type direction struct {
	dst, src net.Conn
	rate     *rateLimit
	total    *atomic.Int64 // of the run
	bytes    int64
}

// tunnel copies bytes in both directions until both sides have closed theirs,
// one fails, or the idle time-out passes.
func (c *connection) tunnel(r *serverConn) {
	c.logServerConn(r)
	u := c.uplink
	t := &tunnel{uplink: u, client: c.Conn, server: r.conn}
	t.lastByte.Store(time.Now().UnixNano())
	request := direction{dst: r.conn, src: c.Conn, rate: u.up, total: &u.sent}
	response := direction{dst: c.Conn, src: r.conn, rate: u.down, total: &u.received}
	u.sent.Add(int64(-len(c.prefix))) // counted again when they are written
	var w sync.WaitGroup
	w.Go(func() { t.pass(&request, c.prefix) })
	t.pass(&response, c.greeting)
	w.Wait()
	c.finishLog(func(e *log.Entry) {
		e.RequestBytes, e.ResponseBytes = request.bytes, response.bytes
		switch {
		case u.life.Err() != nil:
			e.Error = "ended with the run"
		case t.err != nil:
			e.Error = reason(t.err)
		}
	})
}

// pass copies one direction to its end. After an error it resets both
// connections, so that the other side does not take it for a regular end.
func (t *tunnel) pass(d *direction, first []byte) {
	err := t.copy(d, first)
	if err == nil {
		err = closeWrite(d.dst)
	}
	if err != nil && !errors.Is(err, net.ErrClosed) {
		t.fail.Do(func() {
			t.err = err
			reset(t.client)
			reset(t.server)
		})
	}
}

func (t *tunnel) copy(d *direction, first []byte) error {
	idle := t.uplink.gateway.config.IdleTimeout
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
	if d.rate != nil {
		src = &limitedReader{d.src, d.rate, t.uplink.life}
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
		case time.Since(began) >= idle || time.Since(time.Unix(0, t.lastByte.Load())) >= idle:
			return errIdle // the first condition is a write that blocked
		}
	}
}

func (t *tunnel) count(d *direction, n int64) {
	if n > 0 {
		d.bytes += n
		d.total.Add(n)
		t.lastByte.Store(time.Now().UnixNano())
	}
}
