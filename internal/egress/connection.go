package egress

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/egress/dns"
	"github.com/stint-dev/stint/internal/egress/log"
	"github.com/stint-dev/stint/internal/egress/policy"
	"github.com/stint-dev/stint/internal/sandbox"
)

const (
	dnsPort    = 53
	retryDelay = 20 * time.Millisecond // pause after a failed call of Accept
)

// connection is a TCP connection of a sandbox. Read returns the bytes of prefix first.
// Read and Write count bytes and apply the run's rate.
type connection struct {
	net.Conn
	uplink *Uplink
	id     int64 // number of the connection within the run, from 1
	dest   policy.Destination
	prefix []byte // bytes that were read ahead and that Read has not returned yet

	// The log; see connection_log.go.
	logMu        sync.Mutex // guards entry, logged, and logsRequests
	entry        log.Entry
	logged       bool // the connection's last entry is written or not needed
	logsRequests bool // each request is logged instead of the connection
	openTimer    *time.Timer

	// The dial to the server, which runs while the client's opening is read; see
	// greeting.go.
	cancelDial context.CancelFunc
	dialed     chan struct{} // closed when serverConn, dialErr, and greeting are final
	serverConn *serverConn
	dialErr    error
	greeting   []byte // first bytes that the server sent

	mu          sync.Mutex // guards the fields below, and orders changes of read deadlines
	server      net.Conn   // the connection in serverConn; nil until it is established
	opened      bool       // the client's opening is known
	serverFirst bool       // the server sent bytes first, closed the connection, or cannot be reached
	reported    bool       // readMore returned errServerFirst
	serverTaken bool
}

// acceptAll serves the connections of a listener until the listener is closed. It also
// returns if Accept fails after the end of the uplink.
func (u *Uplink) acceptAll(l sandbox.Listener) {
	for {
		c, target, err := l.Accept()
		switch {
		case err == nil:
			u.admit(c, target)
		case errors.Is(err, net.ErrClosed):
			return
		default:
			u.gateway.config.Logger.Debug("accepting a connection of a sandbox failed", "error", err)
			select {
			case <-time.After(retryDelay):
			case <-u.life.Done():
				return
			}
		}
	}
}

// admit serves a connection in the background. If the run has too many connections,
// admit resets the connection instead.
func (u *Uplink) admit(conn net.Conn, target netip.AddrPort) {
	id := u.count.Add(1)
	select {
	case u.slots <- struct{}{}:
	default:
		reset(conn)
		u.log.Write(log.Entry{
			Time: u.gateway.config.Now(), Connection: id, Action: log.Deny, Rule: "too many connections", Protocol: "tcp",
			Host: target.Addr().Unmap().String(), Port: target.Port(),
		})
		return
	}
	u.work.Go(func() {
		defer func() { <-u.slots }()
		defer conn.Close()
		defer context.AfterFunc(u.life, func() { conn.Close() })()
		c := &connection{Conn: conn, uplink: u, id: id}
		c.serve(u.life, target)
	})
}

// serve serves a connection to target. It answers DNS queries, acts as the explicit
// proxy, serves an internal name, or passes the connection to a server.
func (c *connection) serve(ctx context.Context, target netip.AddrPort) {
	u := c.uplink
	if target.Port() == dnsPort {
		u.dns.ServeConn(ctx, c)
		return
	}
	var refused *policy.Refusal
	c.dest, refused = u.named(policy.Destination{Addr: target.Addr().Unmap().WithZone(""), Port: target.Port()})
	if refused == nil && c.dest.Name == stint.ProxyAlias && u.hasProxy() {
		c.serveExplicitProxy(ctx)
		return
	}
	if refused == nil {
		_, refused = u.policy.Decide(c.dest)
	}
	c.beginLog()
	switch {
	case refused != nil:
		c.failDial(refused)
		c.pass(ctx)
	case u.policy.IsInternal(c.dest.Name):
		c.serveInternal(ctx)
	default:
		c.startDial(ctx, nil)
		c.pass(ctx)
	}
}

// named returns the destination with the name that d's address represents. If the
// address is not in the range of addresses that represent names, named returns d. If the
// address is in the range but represents no name, named returns a refusal.
func (u *Uplink) named(d policy.Destination) (policy.Destination, *policy.Refusal) {
	if !dns.IsNameAddr(d.Addr) {
		return d, nil
	}
	name, ok := u.names.Name(d.Addr)
	if !ok {
		return d, policy.Refuse("unknown address", "%s does not represent a name that was looked up in this sandbox. Look the name up again.", d)
	}
	return policy.Destination{Name: name, Port: d.Port}, nil
}

// pass reads the client's opening and then forwards, intercepts, tunnels, or refuses the
// connection. Before, the caller must call startDial or failDial.
func (c *connection) pass(ctx context.Context) {
	defer c.closeDial()
	defer c.endLog()
	o := c.readOpening()
	c.logOpening(o)
	if o.kind == kindHTTP {
		c.forward(ctx, c.dest, false)
		return
	}
	r, err := c.waitDial()
	if refused, ok := errors.AsType[policy.Refusal](err); ok {
		c.deny(&refused)
		return
	}
	host, intercepted := c.intercepts(o)
	if refused := c.checkOpening(o, intercepted); refused != nil {
		c.deny(refused)
		return
	}
	if intercepted {
		c.forward(ctx, policy.Destination{Name: host, Port: c.dest.Port}, true)
		return
	}
	if err != nil {
		c.fail(err)
		return
	}
	c.tunnel(r)
}

// intercepts reports whether the connection uses TLS and must be terminated. If so, it
// returns the host for which the proxy needs a certificate.
func (c *connection) intercepts(o opening) (string, bool) {
	if o.kind != kindTLS || len(c.uplink.inspect) == 0 {
		return "", false
	}
	for _, host := range []string{o.serverName, c.dest.Name} {
		if host != "" && policy.HostMatches(c.uplink.inspect, host, c.dest.Port) {
			return host, true
		}
	}
	return "", false
}

// checkOpening checks a connection that is bound to a name. If the opening could lead the
// connection to a host that the policy does not allow, checkOpening returns a refusal.
func (c *connection) checkOpening(o opening, intercepted bool) *policy.Refusal {
	switch {
	case !c.isBoundToName():
		return nil
	case o.kind == kindUnreadable:
		return policy.Refuse("unreadable opening", "The first bytes sent to %s cannot be parsed completely.", c.dest)
	case o.kind == kindHTTP2:
		return policy.Refuse("cleartext HTTP/2", "Cleartext HTTP/2 to %s can contain requests to any host. Use TLS, or add its address to network.allow.", c.dest)
	case o.kind != kindTLS:
		return nil
	case o.encrypted && !intercepted:
		return policy.Refuse("encrypted ClientHello", "The connection to %s hides the server's name. Turn encrypted ClientHello off, or add the host to network.inspect.", c.dest)
	case o.serverName == "" || o.serverName == c.dest.Name:
		return nil
	}
	_, refused := c.uplink.policy.DecideName(o.serverName, c.dest.Port)
	return refused
}

// isBoundToName reports whether the opening must be for the name that the connection was
// opened for, or for another allowed host. In restricted mode this is so, except for
// connections to addresses and to the worker's loopback interface.
func (c *connection) isBoundToName() bool {
	return c.uplink.policy.Mode == policy.Restricted && c.dest.Name != "" && c.dest.Name != stint.HostAlias
}

// readAhead reads bytes from the sandbox and appends them to prefix.
func (c *connection) readAhead() error {
	var b [4096]byte
	n, err := c.Conn.Read(b[:])
	c.uplink.sent.Add(int64(n))
	c.prefix = append(c.prefix, b[:n]...)
	if n > 0 {
		return nil
	}
	return err
}

func (c *connection) Read(p []byte) (int, error) {
	if len(c.prefix) > 0 {
		n := copy(p, c.prefix)
		c.prefix = c.prefix[n:]
		return n, nil
	}
	n, err := c.Conn.Read(c.uplink.up.limit(p))
	c.uplink.sent.Add(int64(n))
	c.uplink.up.wait(c.uplink.life, n)
	return n, err
}

func (c *connection) Write(p []byte) (written int, err error) {
	for len(p) > 0 && err == nil {
		part := c.uplink.down.limit(p)
		c.uplink.down.wait(c.uplink.life, len(part))
		var n int
		n, err = c.Conn.Write(part)
		c.uplink.received.Add(int64(n))
		written += n
		p = p[n:]
	}
	return written, err
}

// CloseWrite closes the direction to the sandbox.
func (c *connection) CloseWrite() error { return closeWrite(c.Conn) }

// closeWrite closes the sending direction of a connection. If c does not support this,
// closeWrite closes the connection.
func closeWrite(c net.Conn) error {
	if h, ok := c.(interface{ CloseWrite() error }); ok {
		return h.CloseWrite()
	}
	return c.Close()
}

// reset closes a connection. A TCP connection is closed with a reset, which a client
// notices immediately.
func reset(c net.Conn) {
	if t, ok := c.(*net.TCPConn); ok {
		_ = t.SetLinger(0)
	}
	c.Close()
}
