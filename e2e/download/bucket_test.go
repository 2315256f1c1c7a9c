package download_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/e2e/installation"
	"github.com/stint-dev/stint/internal/blob/s3/s3test"
)

// TestPopularArchiveInBucket downloads a large archive until the service redirects
// downloads to its bucket. The archive from the bucket must have the same bytes.
func TestPopularArchiveInBucket(t *testing.T) {
	t.Parallel()
	server, err := s3test.Start()
	installation.Check(t, err)
	t.Cleanup(func() { installation.Check(t, server.Close()) })
	installation.Check(t, server.NewBucket("bucket"))
	w := serve(t, server.Env(), "--storage", server.URL("bucket"))
	id := w.push(t, "big", folder(t, []item{{name: "noise", body: noise(9 << 20)}, {name: "small", body: []byte("s")}}))

	own := w.link(t, id, "")
	if !strings.HasPrefix(own, w.front+"/v1/downloads/") {
		t.Fatalf("the first link is %s", own)
	}
	whole, err := os.ReadFile(w.fetch(t, own, "big-v1.tar.gz"))
	installation.Check(t, err)
	w.wantBytes(t, "a second download", whole, w.fetch(t, own, "big-v1.tar.gz"))
	direct := w.bucketLink(t, id)
	if !strings.Contains(direct, "/bucket/") {
		t.Fatalf("the link leads to %s", direct)
	}
	w.wantBytes(t, "the bucket", whole, w.fetch(t, direct, "big-v1.tar.gz"))
	w.wantBytes(t, "the service", whole, w.fetch(t, own, "big-v1.tar.gz"))
	for range 5 {
		from := rand.IntN(len(whole))
		to := from + rand.IntN(len(whole)-from)
		if got := w.curl(t, "-r", fmt.Sprintf("%d-%d", from, to), direct); !bytes.Equal(whole[from:to+1], got) {
			t.Errorf("bytes %d to %d of %d differ; %d bytes were received", from, to, len(whole), len(got))
		}
	}
	begun := filepath.Join(t.TempDir(), "begun")
	installation.Check(t, os.WriteFile(begun, whole[:1+rand.IntN(len(whole)-1)], 0o600))
	w.curl(t, "-C", "-", "-o", begun, direct)
	w.wantBytes(t, "what the service began and the bucket ended", whole, begun)
	sum := sha256.New()
	n, err := w.client.Volumes.Download(t.Context(), id, "", sum)
	if want := sha256.Sum256(whole); err != nil || n != int64(len(whole)) || !bytes.Equal(want[:], sum.Sum(nil)) {
		t.Errorf("the client downloaded %d of %d bytes, or different ones, %v", n, len(whole), err)
	}
}

// bucketLink waits until the link to a volume's archive leads to the bucket, and
// returns this link.
func (w *service) bucketLink(t testing.TB, id string) string {
	t.Helper()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(waitLimit); time.Now().Before(deadline); <-tick.C {
		if link := w.link(t, id, ""); !strings.HasPrefix(link, w.front) {
			return link
		}
	}
	t.Fatalf("the service still sends the archive itself after %s", waitLimit)
	return ""
}

func (w *service) wantBytes(t testing.TB, who string, want []byte, file string) {
	t.Helper()
	got, err := os.ReadFile(file)
	installation.Check(t, err)
	if !bytes.Equal(want, got) {
		t.Errorf("%s: the %d bytes differ from the %d bytes of the first download", who, len(got), len(want))
	}
}
