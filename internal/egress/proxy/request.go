package proxy

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/stint-dev/stint/internal/egress/policy"
)

// ruleHost is the rule of refused requests for a host or port other than the
// connection's.
const ruleHost = "host mismatch"

// check determines the host and URL of the request. If the request must not be
// forwarded, check returns a fault.
func (x *exchange) check() *fault {
	if f := x.conn.fault(); f != nil {
		return f
	}
	if x.r.Method == http.MethodConnect {
		return &fault{status: http.StatusMethodNotAllowed, rule: ruleFraming, message: "CONNECT is not supported on this connection."}
	}
	host, port, f := x.findTarget()
	if f != nil {
		return f
	}
	x.record.Host, x.record.Port = host, port
	x.record.URL = clip(x.conn.h.Scheme + "://" + hostPort(x.conn.h.Scheme, host, port) + x.target)
	if !isTarget(x.target) {
		return badFraming("The request's address has invalid characters.")
	}
	if x.overload {
		return &fault{status: http.StatusRequestHeaderFieldsTooLarge, rule: ruleFraming, message: "The headers of all requests in progress exceed 64 MiB. Wait until some have ended."}
	}
	if f := x.checkHTTP2(); f != nil {
		return f
	}
	if x.conn.h.Scheme == "https" && host != policy.CanonicalHost(x.conn.h.Host) {
		return &fault{
			status: http.StatusMisdirectedRequest, rule: ruleHost,
			message: "This connection is for " + x.conn.h.Host + ", but the request is for another host. Open another connection.",
		}
	}
	return nil
}

// findTarget returns the host and port of the request, and sets x.target to its path and
// query.
func (x *exchange) findTarget() (host string, port uint16, f *fault) {
	h, uri := x.conn.h, x.r.RequestURI
	x.target, port = uri, h.Port
	switch {
	case strings.HasPrefix(uri, "/"), uri == "*" && x.r.Method == http.MethodOptions:
		if h.Host == "" {
			return "", 0, badFraming("A request to the proxy needs an absolute URL in its first line.")
		}
	case !h.Proxy || x.r.ProtoMajor != 1 || x.r.URL.Scheme != h.Scheme || x.r.URL.User != nil:
		return "", 0, badFraming("Requests with this form of URL are not forwarded.")
	default:
		x.target = afterAuthority(uri)
		port = 80
	}
	name, digits, hasPort := policy.CutPort(x.r.Host)
	if x.r.Host == "" { // HTTP/1.0
		name = h.Host
	}
	if host = policy.CanonicalHost(name); host == "" {
		return "", 0, badFraming("The request's host is not a host name.")
	}
	if !hasPort {
		return host, port, nil
	}
	n, err := strconv.ParseUint(digits, 10, 16)
	if err != nil || n == 0 {
		return "", 0, badFraming("The request's host has a malformed port.")
	}
	if uint16(n) != port && x.target == uri {
		return "", 0, &fault{status: http.StatusMisdirectedRequest, rule: ruleHost, message: "The request is for a port other than the connection's."}
	}
	return host, uint16(n), nil
}

// afterAuthority returns the path and query of an absolute URL. The path is at least "/".
func afterAuthority(uri string) string {
	_, rest, _ := strings.Cut(uri, "://")
	at := strings.IndexAny(rest, "/?#")
	if at < 0 {
		return "/"
	}
	if rest[at] != '/' {
		return "/" + rest[at:]
	}
	return rest[at:]
}

// checkHTTP2 checks the headers of an HTTP/2 request that repeat information of the
// HTTP/2 framing: Host and Content-Length.
func (x *exchange) checkHTTP2() *fault {
	if x.r.ProtoMajor != 2 {
		return nil
	}
	for _, host := range x.r.Header["Host"] {
		if !strings.EqualFold(host, x.r.Host) {
			return badFraming("The request names two hosts.")
		}
	}
	lengths := x.r.Header["Content-Length"]
	if len(lengths) > 1 {
		return badFraming("The request gives the length of its body more than once.")
	}
	if len(lengths) == 1 {
		if _, ok := decimal(lengths[0]); !ok {
			return badFraming("The request's Content-Length is not a number.")
		}
	}
	return nil
}

// outgoing returns the request to the server. If a secret cannot be sent, it returns a
// fault.
func (x *exchange) outgoing() (*http.Request, *fault) {
	x.broker = x.conn.brokerOf(x.record.Host, x.record.Port)
	path, query, hasQuery := strings.Cut(x.target, "?")
	header, inserted, f := x.outgoingHeaders()
	if f != nil {
		return nil, f
	}
	if x.broker != nil && hasQuery {
		var found []string
		if query, found, f = x.broker.query(query); f != nil {
			return nil, f
		}
		inserted = append(inserted, found...)
	}
	if len(inserted) > 0 {
		slices.Sort(inserted)
		x.inserted = slices.Compact(inserted)
		header["Accept-Encoding"] = []string{"identity"} // secrets can be redacted only in an uncompressed response
	}
	out := &http.Request{
		Method: x.r.Method, URL: x.outgoingURL(path, query, hasQuery), Host: x.r.Host, Header: header,
		ContentLength: x.r.ContentLength, Trailer: x.r.Trailer, Body: http.NoBody,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}
	if out.Host == "" {
		out.Host = hostPort(x.conn.h.Scheme, x.record.Host, x.record.Port)
	}
	if x.r.ContentLength != 0 && x.r.Body != nil && x.r.Body != http.NoBody {
		x.addBody(out)
	}
	return out, nil
}

// outgoingURL returns the URL of the request to the server. Its path is exactly the path
// that the client sent.
func (x *exchange) outgoingURL(path, query string, hasQuery bool) *url.URL {
	u := &url.URL{
		Scheme: x.conn.h.Scheme, Host: hostPort(x.conn.h.Scheme, x.record.Host, x.record.Port),
		Opaque: path, RawQuery: query, ForceQuery: hasQuery && query == "",
	}
	if strings.HasPrefix(path, "//") { // in Opaque, such a path would be interpreted as a host
		u.Opaque, u.Path, u.RawPath = "", x.r.URL.Path, x.r.URL.RawPath
	}
	return u
}

// addBody sets the body of out to the body of the client's request.
func (x *exchange) addBody(out *http.Request) {
	b := &requestBody{x: x}
	out.Body = b
	if x.r.ContentLength < 0 {
		out.TransferEncoding = []string{"chunked"}
	}
	// If a server closes an idle connection just before the transport reuses it, the
	// transport dials again. It can do so only if the body was not read yet.
	out.GetBody = func() (io.ReadCloser, error) {
		if b.started.Load() {
			return nil, errors.New("the request's body was read already")
		}
		return b, nil
	}
}

// requestBody is the body of a client's request. It counts the bytes that are read. Close
// does nothing, because the HTTP server closes the body.
type requestBody struct {
	x       *exchange
	started atomic.Bool
}

func (b *requestBody) Read(p []byte) (int, error) {
	first := !b.started.Swap(true)
	if first {
		b.x.setReading(b.x.r.Header.Get("Expect") != "")
	}
	n, err := b.x.r.Body.Read(p)
	if first {
		b.x.setReading(false)
	}
	b.x.sent.Add(int64(n))
	return n, err
}

func (x *exchange) setReading(reading bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.reading = reading
}

func (b *requestBody) Close() error { return nil }

// clip returns a URL for the log: at most maxURL bytes of valid UTF-8.
func clip(s string) string {
	if len(s) > maxURL {
		return strings.ToValidUTF8(s[:maxURL], "")
	}
	return strings.ToValidUTF8(s, "?")
}

// hostPort returns the host and port in the form of a URL. It omits the default port of
// the scheme.
func hostPort(scheme, host string, port uint16) string {
	if scheme == "http" && port == 80 || scheme == "https" && port == 443 {
		if strings.Contains(host, ":") {
			return "[" + host + "]"
		}
		return host
	}
	return net.JoinHostPort(host, strconv.Itoa(int(port)))
}
