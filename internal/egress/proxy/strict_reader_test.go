package proxy_test

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http"
	"testing"
	"testing/iotest"

	"github.com/stint-dev/stint/internal/egress/proxy"
)

// FuzzStrictReader checks that net/http parses the output of the strict reader like
// the reader does: the same requests with the same boundaries.
func FuzzStrictReader(f *testing.F) {
	for _, raw := range corpus {
		f.Add([]byte(raw))
		f.Add([]byte("POST /1 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3;x\r\nabc\r\n0\r\nT: v\r\n\r\n" + raw))
	}
	f.Add([]byte("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabcGET / HTTP/1.0\r\n\r\n"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		given, requests, head, body := proxy.ReadStrict(bytes.NewReader(raw))
		slow, again, _, _ := proxy.ReadStrict(iotest.OneByteReader(bytes.NewReader(raw)))
		if !bytes.Equal(given, slow) || requests != again {
			t.Fatalf("byte by byte the output is %q, %d requests, not %q, %d", slow, again, given, requests)
		}
		verbatim := given
		if head {
			verbatim = bytes.TrimSuffix(given, proxy.EmptyRequest)
		}
		if !bytes.HasPrefix(raw, verbatim) {
			t.Fatalf("%q was changed to %q", raw, given)
		}
		in := bufio.NewReader(bytes.NewReader(given))
		for n := 1; ; n++ {
			r, err := http.ReadRequest(in)
			if errors.Is(err, io.EOF) && n != requests+1 {
				t.Fatalf("net/http finds %d requests in %q, the reader %d", n-1, given, requests)
			}
			if err != nil {
				return // net/http refused it, which ends the connection
			}
			if n > requests {
				t.Fatalf("net/http finds a request %d in %q: %s %s", n, given, r.Method, r.RequestURI)
			}
			if _, err := io.Copy(io.Discard, r.Body); err != nil {
				if n != requests {
					t.Fatalf("the body of request %d of %d ends early in %q (%v): %v", n, requests, given, body, err)
				}
				return
			}
		}
	})
}
