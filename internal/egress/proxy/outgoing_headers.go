package proxy

import (
	"net/http"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// outgoingHeaders returns the headers of the request to the server: the client's
// headers with secrets, but without hop-by-hop headers, Host, and Content-Length. inserted
// contains the names of these secrets. outgoingHeaders also sets x.upgrade, and keeps
// the headers of a requested upgrade and "Te: trailers".
func (x *exchange) outgoingHeaders() (header http.Header, inserted []string, f *fault) {
	in := x.r.Header
	header = make(http.Header, len(in)+2)
	for name, values := range in {
		if IsHopByHop(name, in["Connection"]) || name == "Host" || name == "Content-Length" {
			continue
		}
		if x.broker != nil {
			var found []string
			if values, found, f = x.insertSecrets(name, values); f != nil {
				return nil, nil, f
			}
			inserted = append(inserted, found...)
		}
		header[name] = values
	}
	if httpguts.HeaderValuesContainsToken(in["Te"], "trailers") {
		header["Te"] = []string{"trailers"}
	}
	if _, ok := header["User-Agent"]; !ok {
		header["User-Agent"] = []string{""} // keeps the transport from adding one
	}
	if x.conn.reader != nil && httpguts.HeaderValuesContainsToken(in["Connection"], "upgrade") {
		x.upgrade = in.Get("Upgrade")
		if x.upgrade == "" || strings.EqualFold(x.upgrade, "h2c") {
			x.upgrade = "" // an upgrade to cleartext HTTP/2 is omitted; the client continues with HTTP/1
			delete(header, "Http2-Settings")
		} else {
			header["Connection"], header["Upgrade"] = []string{"Upgrade"}, []string{x.upgrade}
		}
	}
	return header, inserted, nil
}

// insertSecrets returns the values of a header with secrets instead of their
// placeholders, and the names of the inserted secrets.
func (x *exchange) insertSecrets(name string, values []string) (out, inserted []string, f *fault) {
	for _, v := range values {
		value, found, f := x.broker.header(name, v)
		if f != nil {
			return nil, nil, f
		}
		out = append(out, value)
		inserted = append(inserted, found...)
	}
	return out, inserted, nil
}

// IsHopByHop reports whether a header applies only to one connection, so that it must
// not be forwarded. name is in canonical form; connection contains the values of the
// message's Connection header.
func IsHopByHop(name string, connection []string) bool {
	switch name {
	case "Connection", "Proxy-Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization",
		"Te", "Trailer", "Transfer-Encoding", "Upgrade":
		return true
	}
	return len(connection) > 0 && httpguts.HeaderValuesContainsToken(connection, name)
}
