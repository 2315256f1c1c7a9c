package proxy_test

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// frames sends an HTTP/2 request with exactly these headers and returns the status
// of the response, or "reset" if there is none.
func (w *testProxy) frames(fields ...string) string {
	w.t.Helper()
	c := tls.Client(w.conn().(*tls.Conn).NetConn(), &tls.Config{RootCAs: w.roots(), ServerName: "api.test", NextProtos: []string{"h2"}})
	defer c.Close()
	if _, err := io.WriteString(c, http2.ClientPreface); err != nil {
		w.t.Fatal(err)
	}
	f := http2.NewFramer(c, c)
	f.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	var block bytes.Buffer
	e := hpack.NewEncoder(&block)
	for i := 0; i < len(fields); i += 2 {
		_ = e.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
	}
	if err := errors.Join(f.WriteSettings(), f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block.Bytes(), EndHeaders: true}), f.WriteData(1, true, []byte("body"))); err != nil {
		w.t.Fatal(err)
	}
	for {
		frame, err := f.ReadFrame()
		if err != nil {
			w.t.Fatal(err)
		}
		switch frame := frame.(type) {
		case *http2.MetaHeadersFrame:
			return frame.PseudoValue("status")
		case *http2.RSTStreamFrame, *http2.GoAwayFrame:
			return "reset"
		}
	}
}

func TestAmbiguousHTTP2RequestsAreRefused(t *testing.T) {
	t.Parallel()
	w := newTestProxy(t, "https", func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) })
	line := []string{":method", "POST", ":scheme", "https", ":authority", "api.test", ":path", "/a"}
	for name, c := range map[string]struct {
		fields []string
		want   string
	}{
		"valid":                         {append(line, "host", "api.test", "content-length", "4"), "200"},
		"two hosts":                     {append(line, "host", "denied.test"), "400"},
		"three hosts":                   {append(line, "host", "api.test", "host", "denied.test"), "400"},
		"another host":                  {append(line[:4:4], ":path", "/a", "host", "denied.test"), "421"},
		"a length that is not a number": {append(line, "content-length", "+4"), "no"},
		"two lengths":                   {append(line, "content-length", "4", "content-length", "5"), "400"},
		"an encoding":                   {append(line, "transfer-encoding", "chunked"), "400"},
		"a connection's header":         {append(line, "connection", "x"), "400"},
		"a space in the path":           {append(line[:6:6], ":path", "/a HTTP/1.1"), "400"},
		"a line in the path":            {append(line[:6:6], ":path", "/a\r\nX: y"), "reset"},
		"no path":                       {append(line[:6:6], ":path", "a"), "reset"},
		"a line in a value":             {append(line, "x-a", "b\r\nX: y"), "reset"},
		"a colon in a name":             {append(line, "x-a: b", "c"), "reset"},
		"a tunnel":                      {[]string{":method", "CONNECT", ":authority", "denied.test:443"}, "405"},
	} {
		if got := w.frames(c.fields...); got != c.want && (c.want != "no" || got == "200") { // "no" accepts all but 200: the body may be read before the response is written
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
	if n := w.dials.Load(); n != 1 {
		t.Errorf("%d requests were forwarded, want 1", n)
	}
}
