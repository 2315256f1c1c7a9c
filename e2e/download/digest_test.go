package download_test

import (
	"encoding/base64"
	"encoding/hex"
	"io"
	"net/http"
	"os"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint/e2e/installation"
	"github.com/stint-dev/stint/internal/testkit/apitest"
)

// TestDigests compares the Repr-Digest header of archives with the output of sha256sum
// for the downloaded files.
func TestDigests(t *testing.T) {
	t.Parallel()
	w := serve(t, nil)
	id := w.push(t, "odd", folder(t, oddNames()))
	for _, format := range []string{"tar.gz", "zip", "tar"} {
		t.Run(format, func(t *testing.T) {
			t.Parallel()
			a := archiveClient{t, apitest.Client(t), w.link(t, id, "?format="+format)}
			if got := a.headers("GET", nil).Get("Repr-Digest"); got != "" {
				t.Errorf("the digest before a request for it is %s", got)
			}
			file := w.fetch(t, a.link, "odd-v1."+format)
			sum, err := hex.DecodeString(string(program{t, t.TempDir()}.must("sha256sum", "-z", file)[:64]))
			installation.Check(t, err)
			want := "sha-256=:" + base64.StdEncoding.EncodeToString(sum) + ":"
			wanting := http.Header{"Want-Repr-Digest": {"sha-256=1"}}
			if diff := cmp.Diff(want, a.headers("HEAD", wanting).Get("Repr-Digest")); diff != "" {
				t.Errorf("the digest (-want +got):\n%s", diff)
			}
			got := a.headers("GET", nil)
			if diff := cmp.Diff(want, got.Get("Repr-Digest")); diff != "" {
				t.Errorf("the digest of a later request (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(got, a.headers("HEAD", nil)); diff != "" {
				t.Errorf("headers (-GET +HEAD):\n%s", diff)
			}
			info, err := os.Stat(file)
			if err != nil || got.Get("Content-Length") != strconv.FormatInt(info.Size(), 10) {
				t.Errorf("the Content-Length of %d bytes is %s, %v", info.Size(), got.Get("Content-Length"), err)
			}
		})
	}
}

// archiveClient requests the archive at link.
type archiveClient struct {
	t    testing.TB
	http *http.Client
	link string
}

// headers sends a request and returns the headers of the response, except Date and
// X-Request-Id, which are different in each response.
func (a archiveClient) headers(method string, header http.Header) http.Header {
	a.t.Helper()
	req, err := http.NewRequestWithContext(a.t.Context(), method, a.link, nil)
	installation.Check(a.t, err)
	if header != nil {
		req.Header = header
	}
	res, err := a.http.Do(req)
	installation.Check(a.t, err)
	defer res.Body.Close()
	if n, err := io.Copy(io.Discard, res.Body); err != nil || res.StatusCode != http.StatusOK || method == http.MethodHead && n > 0 {
		a.t.Fatalf("%s returned %s with %d bytes, %v", method, res.Status, n, err)
	}
	res.Header.Del("Date")
	res.Header.Del("X-Request-Id")
	return res.Header
}
