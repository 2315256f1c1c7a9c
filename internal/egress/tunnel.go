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
	tunnelChunk = 1 << 20         // bytes after which copied bytes are counted
	tunnelTick  = 5 * time.Second // time after which copied bytes are counted at the latest
)

var errIdle = errors.New("no bytes were transferred for too long")

// tunnel copies bytes unchanged between a client and a server.
type tunnel struct {
	uplink   *Uplink
	client   net.Conn
	server   net.Conn
	lastByte atomic.Int64 // time of the last transferred bytes, in Unix nanoseconds
	fail     sync.Once
	err      error // the first error, which closed both connections
}

// direction is one direction of a tunnel. If both connections are TCP connections and
// there is no rate limit, the kernel copies the bytes.
type direction struct {
	dst, src net.Conn
	rate     *rateLimit
	total    *atomic.Int64 // bytes of the run in this direction
	bytes    int64
}

// tunnel copies bytes in both directions. It returns when both sides have closed their
// sending direction, when a direction fails, when no bytes were transferred for the
// idle time-out, or when the uplink ends.
func (c *connection) tunnel(r *serverConn) {
	c.logServerConn(r)
	u := c.uplink
	t := &tunnel{uplink: u, client: c.Conn, server: r.conn}
	t.lastByte.Store(time.Now().UnixNano())
	request := direction{dst: r.conn, src: c.Conn, rate: u.up, total: &u.sent}
	response := direction{dst: c.Conn, src: r.conn, rate: u.down, total: &u.received}
	u.sent.Add(int64(-len(c.prefix))) // these bytes are counted again when they are written
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

// pass writes first and copies one direction to its end. After an error it resets both
// connections, so that neither side mistakes the error for a regular end.
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
			return errIdle // if idle exceeds tunnelTick, time.Since(began) >= idle means that a write blocked
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
