package proxy

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"

	"golang.org/x/net/http/httpguts"

	"github.com/stint-dev/stint/internal/egress/policy"
)

// ruleHost is the rule of requests for another host than the connection's.
const ruleHost = "host mismatch"

// check finds out what the request is for, or why it is not passed on.
func (x *exchange) check() *fault {
	if f := x.s.fault(); f != nil {
		return f
	}
	if x.r.Method == http.MethodConnect {
		return &fault{status: http.StatusMethodNotAllowed, rule: ruleFraming, message: "Tunnels are not opened here."}
	}
	host, port, f := x.findTarget()
	if f != nil {
		return f
	}
	x.rec.Host, x.rec.Port = host, port
	x.rec.URL = clip(x.s.h.Scheme + "://" + hostPort(x.s.h.Scheme, host, port) + x.target)
	if !isTarget(x.target) {
		return badFraming("The request's address has characters that do not belong there.")
	}
	if x.crowded {
		return &fault{status: http.StatusRequestHeaderFieldsTooLarge, rule: ruleFraming, message: "The headers of all requests under way are larger than 64 MiB. Wait until some have ended."}
	}
	if f := x.checkHTTP2(); f != nil {
		return f
	}
	if x.s.h.Scheme == "https" && host != policy.CanonicalHost(x.s.h.Host) {
		return &fault{
			status: http.StatusMisdirectedRequest, rule: ruleHost,
			message: "This connection is for " + x.s.h.Host + " and the request for another host. Open a connection for that.",
		}
	}
	return nil
}

// findTarget reads the host and port that the request is for, and what is
// wanted of it.
func (x *exchange) findTarget() (host string, port uint16, f *fault) {
	h, uri := x.s.h, x.r.RequestURI
	x.target, port = uri, h.Port
	switch {
	case strings.HasPrefix(uri, "/"), uri == "*" && x.r.Method == http.MethodOptions:
		if h.Host == "" {
			return "", 0, badFraming("This is a proxy; it needs the whole address in the request's first line.")
		}
	case !h.Proxy || x.r.ProtoMajor != 1 || x.r.URL.Scheme != h.Scheme || x.r.URL.User != nil:
		return "", 0, badFraming("A request with this address is not passed on.")
	default:
		x.target = afterAuthority(uri)
		port = 80
	}
	name, digits, hasPort := policy.CutPort(x.r.Host)
	if x.r.Host == "" { // HTTP/1.0
		name = h.Host
	}
	if host = policy.CanonicalHost(name); host == "" {
		return "", 0, badFraming("The request's host is no host name.")
	}
	if !hasPort {
		return host, port, nil
	}
	n, err := strconv.ParseUint(digits, 10, 16)
	if err != nil || n == 0 {
		return "", 0, badFraming("The request's host has a malformed port.")
	}
	if uint16(n) != port && x.target == uri {
		return "", 0, &fault{status: http.StatusMisdirectedRequest, rule: ruleHost, message: "The request is for another port than the connection."}
	}
	return host, uint16(n), nil
}

// afterAuthority gives path and query of an absolute URL.
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

// checkHTTP2 looks for headers that say again what HTTP/2 says by itself.
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
			return badFraming("The request's Content-Length is no number.")
		}
	}
	return nil
}

// outgoing makes the request for the server.
func (x *exchange) outgoing() (*http.Request, *fault) {
	x.broker = x.s.brokerOf(x.rec.Host, x.rec.Port)
	path, query, hasQuery := strings.Cut(x.target, "?")
	header, put, f := x.outgoingHeader()
	if f != nil {
		return nil, f
	}
	if x.broker != nil && hasQuery {
		var inQuery bool
		if query, inQuery, f = x.broker.query(query); f != nil {
			return nil, f
		}
		put = put || inQuery
	}
	if put {
		header["Accept-Encoding"] = []string{"identity"} // so that the value is seen if it comes back
	}
	out := &http.Request{
		Method: x.r.Method, URL: x.outgoingURL(path, query, hasQuery), Host: x.r.Host, Header: header,
		ContentLength: x.r.ContentLength, Trailer: x.r.Trailer, Body: http.NoBody,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}
	if out.Host == "" {
		out.Host = hostPort(x.s.h.Scheme, x.rec.Host, x.rec.Port)
	}
	if x.r.ContentLength != 0 && x.r.Body != nil && x.r.Body != http.NoBody {
		x.addBody(out)
	}
	return out, nil
}

// outgoingURL has the path byte by byte as the client wrote it.
func (x *exchange) outgoingURL(path, query string, hasQuery bool) *url.URL {
	u := &url.URL{
		Scheme: x.s.h.Scheme, Host: hostPort(x.s.h.Scheme, x.rec.Host, x.rec.Port),
		Opaque: path, RawQuery: query, ForceQuery: hasQuery && query == "",
	}
	if strings.HasPrefix(path, "//") { // as Opaque it would name a host
		u.Opaque, u.Path, u.RawPath = "", x.r.URL.Path, x.r.URL.RawPath
	}
	return u
}

// outgoingHeader copies what is for the server, with secrets put in.
func (x *exchange) outgoingHeader() (header http.Header, put bool, f *fault) {
	in := x.r.Header
	header = make(http.Header, len(in)+2)
	for name, values := range in {
		if hopByHop(name, in["Connection"]) || name == "Host" || name == "Content-Length" {
			continue
		}
		if x.broker != nil {
			var here bool
			if values, here, f = x.brokered(name, values); f != nil {
				return nil, false, f
			}
			put = put || here
		}
		header[name] = values
	}
	if httpguts.HeaderValuesContainsToken(in["Te"], "trailers") {
		header["Te"] = []string{"trailers"}
	}
	if _, ok := header["User-Agent"]; !ok {
		header["User-Agent"] = []string{""} // none is added
	}
	if x.s.wire != nil && httpguts.HeaderValuesContainsToken(in["Connection"], "upgrade") {
		x.upgrade = in.Get("Upgrade")
		if x.upgrade == "" || strings.EqualFold(x.upgrade, "h2c") {
			x.upgrade = "" // HTTP/2 in cleartext: the client goes on without
			delete(header, "Http2-Settings")
		} else {
			header["Connection"], header["Upgrade"] = []string{"Upgrade"}, []string{x.upgrade}
		}
	}
	return header, put, nil
}

// brokered gives the values of a header with secrets put in.
func (x *exchange) brokered(name string, values []string) ([]string, bool, *fault) {
	var out []string
	for i, v := range values {
		with, put, f := x.broker.header(name, v)
		if f != nil {
			return nil, false, f
		}
		if put {
			if out == nil {
				out = append(out, values...)
			}
			out[i] = with
		}
	}
	if out == nil {
		return values, false, nil
	}
	return out, true, nil
}

// hopByHop tells whether a header is about one connection and not about the
// message; connection has the names that the sender listed.
func hopByHop(name string, connection []string) bool {
	switch name {
	case "Connection", "Proxy-Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization",
		"Te", "Trailer", "Transfer-Encoding", "Upgrade":
		return true
	}
	return len(connection) > 0 && httpguts.HeaderValuesContainsToken(connection, name)
}

// addBody lets the transport read the client's body.
func (x *exchange) addBody(out *http.Request) {
	b := &requestBody{x: x}
	out.Body = b
	if x.r.ContentLength < 0 {
		out.TransferEncoding = []string{"chunked"}
	}
	// A server may close a pooled connection just before it is used again; the
	// transport then takes another if the body can still be had.
	out.GetBody = func() (io.ReadCloser, error) {
		if b.begun.Load() {
			return nil, errors.New("the request's body was sent already")
		}
		return b, nil
	}
}

// requestBody is the client's body, counted. The HTTP server closes it.
type requestBody struct {
	x     *exchange
	begun atomic.Bool
}

func (b *requestBody) Read(p []byte) (int, error) {
	first := !b.begun.Swap(true)
	if first {
		b.x.setQuiet(b.x.r.Header.Get("Expect") != "")
	}
	n, err := b.x.r.Body.Read(p)
	if first {
		b.x.setQuiet(false)
	}
	b.x.sent.Add(int64(n))
	return n, err
}

func (x *exchange) setQuiet(quiet bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.quiet = quiet
}

func (b *requestBody) Close() error { return nil }

// clip shortens a URL for the record.
func clip(s string) string {
	if len(s) > maxURL {
		return strings.ToValidUTF8(s[:maxURL], "")
	}
	return strings.ToValidUTF8(s, "?")
}

// hostPort returns host:port as in a URL, without the scheme's default port.
func hostPort(scheme, host string, port uint16) string {
	if scheme == "http" && port == 80 || scheme == "https" && port == 443 {
		if strings.Contains(host, ":") {
			return "[" + host + "]"
		}
		return host
	}
	return net.JoinHostPort(host, strconv.Itoa(int(port)))
}
