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
	"net/netip"
	"strconv"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/egress/proxy"
)

const (
	maxConnect   = 16 << 10 // bytes of a CONNECT request
	lingerLimit  = time.Second
	lingerVolume = 256 << 10
)

// serveProxy is the explicit proxy: CONNECT opens a connection that is treated
// as if it had been made to the host itself, other requests are forwarded.
func (s *Session) serveProxy(ctx context.Context, c *stream, d dest, id int64) {
	f := s.begin(id, d)
	defer f.stop()
	c.limitOpening()
	o, err := classify(c.prefix)
	for errors.Is(err, errMore) && len(c.prefix) < maxOpening {
		if c.fill() != nil {
			break
		}
		o, err = classify(c.prefix)
	}
	_ = c.SetReadDeadline(time.Time{})
	f.note(o)
	switch {
	case o.kind != kindHTTP:
		f.deny(c, refusal("not a proxy request", "%s speaks HTTP: CONNECT, or requests with absolute addresses.", stint.ProxyAlias))
	case bytes.HasPrefix(c.prefix, []byte("CONNECT ")):
		s.connect(ctx, c, f)
	default:
		h := s.handler(f) // without a host: requests name theirs
		h.Proxy, h.Local = true, s.local
		h.Dial = func(ctx context.Context, host string, port uint16) (net.Conn, string, error) {
			asked, refused := s.asked(host, port)
			if refused != nil {
				return nil, "", *refused
			}
			r, err := s.reach(ctx, asked)
			if err != nil {
				return nil, "", err
			}
			return r.conn, r.rule, nil
		}
		s.served(f, h.Serve(ctx, c))
	}
}

// limitOpening bounds how long an opening may take from now on.
func (c *stream) limitOpening() { _ = c.SetReadDeadline(time.Now().Add(openingLimit)) }

// connect serves a CONNECT request. What follows a refused one is read by
// nobody.
func (s *Session) connect(ctx context.Context, c *stream, f *flow) {
	c.limitOpening()
	in := bufio.NewReader(io.LimitReader(c, maxConnect))
	r, err := http.ReadRequest(in)
	_ = c.SetReadDeadline(time.Time{})
	if err != nil {
		s.refuseConnect(c, f, http.StatusBadRequest, refusal("malformed CONNECT", "The CONNECT request cannot be read."))
		return
	}
	d, err := connectTarget(r)
	if err != nil {
		s.refuseConnect(c, f, http.StatusBadRequest, refusal("malformed CONNECT", "The CONNECT request is refused: %v.", err))
		return
	}
	ahead, _ := in.Peek(in.Buffered())
	c.prefix = append(bytes.Clone(ahead), c.prefix...)
	f.update(func(e *Entry) { e.Method, e.Host, e.Port, e.URL = r.Method, d.host(), d.port, d.String() })
	s.connectTo(ctx, c, f, d)
}

// connectTarget reads where a CONNECT request wants to go.
func connectTarget(r *http.Request) (dest, error) {
	host, digits, err := net.SplitHostPort(r.RequestURI)
	if err != nil {
		return dest{}, errors.New("it must name host:port")
	}
	port, err := strconv.ParseUint(digits, 10, 16)
	switch {
	case err != nil || port == 0 || digits[0] < '1' || digits[0] > '9':
		return dest{}, errors.New("the port must be a number from 1 to 65535")
	case r.ContentLength > 0 || len(r.TransferEncoding) > 0 || r.Header.Get("Content-Length") != "":
		return dest{}, errors.New("it must have no body")
	}
	if a, err := netip.ParseAddr(host); err == nil {
		return dest{addr: a.Unmap().WithZone(""), port: uint16(port)}, nil
	}
	name, err := stint.CanonicalDomain(host)
	if err != nil {
		return dest{}, errors.New("the host is no name and no address")
	}
	return dest{name: name, port: uint16(port)}, nil
}

// connectTo reaches d before it answers, so the client learns what went wrong.
func (s *Session) connectTo(ctx context.Context, c *stream, f *flow, d dest) {
	var refused *proxy.Refusal
	if d.name == "" {
		d, refused = s.destination(netip.AddrPortFrom(d.addr, d.port))
	}
	if refused == nil && d.port == dnsPort {
		if c.establish() == nil {
			s.answerStream(ctx, c)
		}
		return
	}
	var way *route
	err := error(nil)
	if refused == nil && s.policy.offers(d.name) && d.port == ownPort {
		if c.establish() == nil {
			s.serveOwn(ctx, c, f, d)
		}
		return
	}
	if refused == nil {
		way, err = s.reach(ctx, d)
	}
	if no, ok := errors.AsType[proxy.Refusal](err); ok {
		refused = &no
	}
	switch {
	case refused != nil:
		s.refuseConnect(c, f, http.StatusForbidden, refused)
	case err != nil:
		c.answer(http.StatusBadGateway, fmt.Sprintf("%s cannot be reached: %v.", d, err))
		f.finish(func(e *Entry) { e.Status, e.Error = http.StatusBadGateway, err.Error() })
	default:
		f.dest = d
		f.led(way)
		a := s.attempt(ctx, d, way)
		if c.establish() != nil {
			a.abandon()
			return
		}
		s.pass(ctx, c, f, a)
	}
}

// establish answers that the way is open.
func (c *stream) establish() error {
	_, err := c.Write([]byte("HTTP/1.1 200 Connection Established\r\n\r\n"))
	return err
}

func (s *Session) refuseConnect(c *stream, f *flow, status int, r *proxy.Refusal) {
	c.answer(status, r.Message)
	f.finish(func(e *Entry) { e.Action, e.Status, e.Rule, e.Error = Deny, status, r.Rule, r.Message })
}

// answer writes a last HTTP answer, and reads on for a moment so that the
// client is not reset before it has read it.
func (c *stream) answer(status int, message string) {
	_ = c.SetDeadline(time.Now().Add(lingerLimit))
	_, err := fmt.Fprintf(c, "HTTP/1.1 %d %s\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s\n",
		status, http.StatusText(status), len(message)+1, message)
	if err == nil && c.CloseWrite() == nil {
		_, _ = io.CopyN(io.Discard, c.Conn, lingerVolume)
	}
	c.Close()
}
