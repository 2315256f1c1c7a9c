package egress

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/egress/log"
	"github.com/stint-dev/stint/internal/egress/policy"
)

const (
	maxConnect  = 16 << 10    // maximum bytes of a CONNECT request
	lingerTime  = time.Second // time for a client to read an error response
	lingerBytes = 256 << 10
)

// serveExplicitProxy serves a connection to stint.ProxyAlias. After a CONNECT request,
// the connection is treated like a direct connection to the requested host. Other
// requests are forwarded.
func (c *connection) serveExplicitProxy(ctx context.Context) {
	c.beginLog()
	defer c.endLog()
	_ = c.SetReadDeadline(time.Now().Add(openingLimit))
	o, err := classify(c.prefix)
	for errors.Is(err, errIncomplete) && len(c.prefix) < maxOpening {
		if c.readAhead() != nil {
			break
		}
		o, err = classify(c.prefix)
	}
	_ = c.SetReadDeadline(time.Time{})
	c.logOpening(o)
	switch {
	case o.kind != kindHTTP:
		c.deny(policy.Refuse("not a proxy request", "%s is an HTTP proxy: send CONNECT, or requests with absolute URLs.", stint.ProxyAlias))
	case bytes.HasPrefix(c.prefix, []byte("CONNECT ")):
		c.serveConnect(ctx)
	default:
		h := c.proxyHandler() // without Host: each request contains its host
		h.Proxy, h.Local = true, c.uplink.localHandler
		h.Dial = func(ctx context.Context, host string, port uint16) (net.Conn, string, error) {
			d, refused := c.uplink.requested(host, port)
			if refused != nil {
				return nil, "", *refused
			}
			r, err := c.uplink.dial(ctx, d)
			if err != nil {
				return nil, "", err
			}
			return r.conn, r.rule, nil
		}
		c.finishForward(h.Serve(ctx, c))
	}
}

// serveConnect serves a CONNECT request. If serveConnect refuses the request, it does not
// interpret the bytes after the request.
func (c *connection) serveConnect(ctx context.Context) {
	_ = c.SetReadDeadline(time.Now().Add(openingLimit))
	in := bufio.NewReader(io.LimitReader(c, maxConnect))
	r, err := http.ReadRequest(in)
	_ = c.SetReadDeadline(time.Time{})
	if err != nil {
		c.refuseConnect(http.StatusBadRequest, policy.Refuse("malformed CONNECT", "The CONNECT request cannot be parsed."))
		return
	}
	d, err := connectTarget(r)
	if err != nil {
		c.refuseConnect(http.StatusBadRequest, policy.Refuse("malformed CONNECT", "The CONNECT request is refused: %v.", err))
		return
	}
	ahead, _ := in.Peek(in.Buffered())
	c.prefix = append(bytes.Clone(ahead), c.prefix...)
	c.updateLog(func(e *log.Entry) { e.Method, e.Host, e.Port, e.URL = r.Method, d.Host(), d.Port, d.String() })
	c.connect(ctx, d)
}

// connectTarget returns the destination of a CONNECT request.
func connectTarget(r *http.Request) (policy.Destination, error) {
	host, digits, err := net.SplitHostPort(r.RequestURI)
	if err != nil {
		return policy.Destination{}, errors.New("its target must be host:port")
	}
	port, err := strconv.ParseUint(digits, 10, 16)
	switch {
	case err != nil || port == 0 || digits[0] < '1' || digits[0] > '9':
		return policy.Destination{}, errors.New("the port must be a number from 1 to 65535")
	case r.ContentLength > 0 || len(r.TransferEncoding) > 0 || r.Header.Get("Content-Length") != "":
		return policy.Destination{}, errors.New("it must not have a body")
	}
	d, err := policy.ParseDestination(host, uint16(port))
	if err != nil {
		return d, errors.New("the host is not a name or an address")
	}
	return d, nil
}

// connect serves a CONNECT request to d. If d is a server, connect dials d before it
// answers, so that the client receives the error of the dial. DNS and internal names are
// not dialed.
func (c *connection) connect(ctx context.Context, d policy.Destination) {
	u := c.uplink
	var refused *policy.Refusal
	d, refused = u.named(d)
	internal := u.policy.IsInternal(d.Name) && d.Port == policy.InternalPort
	if refused == nil && (d.Port == dnsPort || internal) {
		if c.establish() != nil {
			return
		}
		if internal {
			c.dest = d
			c.serveInternal(ctx)
		} else {
			u.dns.ServeConn(ctx, c)
		}
		return
	}
	var r *serverConn
	var err error
	if refused == nil {
		r, err = u.dial(ctx, d)
	}
	if no, ok := errors.AsType[policy.Refusal](err); ok {
		refused = &no
	}
	switch {
	case refused != nil:
		c.refuseConnect(http.StatusForbidden, refused)
	case err != nil:
		c.respond(http.StatusBadGateway, fmt.Sprintf("%s cannot be reached: %v.", d, err))
		c.finishLog(func(e *log.Entry) { e.Status, e.Error = http.StatusBadGateway, err.Error() })
	default:
		c.dest = d
		c.logServerConn(r)
		c.startDial(ctx, r)
		if c.establish() != nil {
			c.closeDial()
			return
		}
		c.pass(ctx)
	}
}

// establish answers a CONNECT request with success.
func (c *connection) establish() error {
	_, err := c.Write([]byte("HTTP/1.1 200 Connection Established\r\n\r\n"))
	return err
}

func (c *connection) refuseConnect(status int, r *policy.Refusal) {
	c.respond(status, r.Message)
	c.finishLog(func(e *log.Entry) { e.Action, e.Status, e.Rule, e.Error = log.Deny, status, r.Rule, r.Message })
}

// respond writes the last HTTP response and closes the connection. Before closing, it
// reads at most lingerBytes bytes for up to lingerTime. Otherwise the client could receive
// a reset before it has read the response.
func (c *connection) respond(status int, message string) {
	_ = c.SetDeadline(time.Now().Add(lingerTime))
	_, err := fmt.Fprintf(c, "HTTP/1.1 %d %s\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s\n",
		status, http.StatusText(status), len(message)+1, message)
	if err == nil && c.CloseWrite() == nil {
		_, _ = io.CopyN(io.Discard, c.Conn, lingerBytes)
	}
	c.Close()
}
