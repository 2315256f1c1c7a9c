package s3_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stint-dev/stint/internal/blob"
	"github.com/stint-dev/stint/internal/blob/s3"
	"github.com/stint-dev/stint/internal/blob/s3/s3test"
)

func TestPrefixesAreSeparate(t *testing.T) {
	t.Parallel()
	bucket, options, _ := strings.Cut(s3test.URL(t), "?")
	one, two := open(t, bucket+"/one?"+options), open(t, bucket+"/two/2/?"+options)
	put(t, one, "a/k", []byte("1"))
	put(t, two, "a/k", []byte("two"))
	for want, s := range map[int64]*s3.Store{1: one, 3: two} {
		var found []blob.Info
		for info, err := range s.List(t.Context(), "") {
			must(t, err)
			found = append(found, info)
		}
		if diff := cmp.Diff([]blob.Info{{Key: "a/k", Size: want}}, found); diff != "" {
			t.Errorf("List (-want +got):\n%s", diff)
		}
	}
	if diff := cmp.Diff(bucket+"/two/2/", two.Bucket()); diff != "" {
		t.Errorf("Bucket (-want +got):\n%s", diff)
	}
}

func TestPresignedLinks(t *testing.T) {
	t.Parallel()
	s := open(t, s3test.URL(t))
	put(t, s, "a/k", []byte("0123456789"))
	link, err := s.PresignGet(t.Context(), "a/k", `ä "b".tar.gz`, "application/gzip", time.Minute)
	must(t, err)
	for _, c := range []struct {
		wanted, want string
		status       int
	}{{"", "0123456789", http.StatusOK}, {"bytes=2-4", "234", http.StatusPartialContent}} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, link, nil)
		must(t, err)
		if c.wanted != "" {
			req.Header.Set("Range", c.wanted)
		}
		res, err := http.DefaultClient.Do(req)
		must(t, err)
		body, err := io.ReadAll(res.Body)
		must(t, errors.Join(err, res.Body.Close()))
		if string(body) != c.want || res.StatusCode != c.status {
			t.Errorf("%q: %s %q, want %d %q", c.wanted, res.Status, body, c.status, c.want)
		}
		got := []string{res.Header.Get("Content-Type"), res.Header.Get("Content-Disposition")}
		if diff := cmp.Diff([]string{"application/gzip", "attachment; filename*=utf-8''%C3%A4%20%22b%22.tar.gz"}, got); diff != "" {
			t.Errorf("headers (-want +got):\n%s", diff)
		}
	}
	for _, ttl := range []time.Duration{0, time.Millisecond, 8 * 24 * time.Hour} {
		if _, err := s.PresignGet(t.Context(), "a/k", "", "", ttl); err == nil {
			t.Errorf("a link for %s was signed", ttl)
		}
	}
	if _, err := s.PresignGet(t.Context(), "../k", "", "", time.Minute); err == nil {
		t.Error("a link to an invalid key was signed")
	}
}

// generator is a reader that computes n bytes and keeps none of them in memory.
type generator struct{ n int }

func (e *generator) Read(p []byte) (int, error) {
	if e.n == 0 {
		return 0, io.EOF
	}
	n := min(len(p), e.n)
	for i := range p[:n] {
		p[i] = byte(e.n - i)
	}
	e.n -= n
	return n, nil
}

// TestUploadMemory checks that an upload of 40 MiB of unknown length allocates at most
// 16 MiB, which suffices for two parts of 5 MiB. It counts all allocations of the process,
// so it does not run in parallel.
func TestUploadMemory(t *testing.T) {
	s := open(t, s3test.URL(t))
	s.UseSmallParts()
	const size = 40 << 20
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	must(t, s.Put(t.Context(), "a/k", &generator{size}, -1))
	runtime.ReadMemStats(&after)
	if used := after.TotalAlloc - before.TotalAlloc; used > 16<<20 {
		t.Errorf("the upload allocated %d MiB, want what two parts of 5 MiB need", used>>20)
	}
	r, err := s.Get(t.Context(), "a/k", 0, -1)
	must(t, err)
	defer r.Close()
	want := &generator{size}
	for a, b := make([]byte, 1<<20), make([]byte, 1<<20); ; {
		n, err := io.ReadFull(r, a)
		m, _ := io.ReadFull(want, b)
		if !bytes.Equal(a[:n], b[:m]) {
			t.Fatal("other bytes came back")
		}
		if err != nil {
			break
		}
	}
	if want.n != 0 {
		t.Errorf("%d bytes did not come back", want.n)
	}
}

// TestRemoveAbandoned checks that old uploads are deleted and new ones are not.
func TestRemoveAbandoned(t *testing.T) {
	t.Parallel()
	server, s := own(t)
	server.Break(func(_ int, r *http.Request) s3test.Fault {
		if r.Method == http.MethodDelete || r.Method == http.MethodPut {
			return s3test.Refuse // neither a part nor the abort of the upload succeeds, as in a crash
		}
		return s3test.None
	})
	if err := s.Put(t.Context(), "a/k", bytes.NewReader(noise(5<<20+1)), -1); err == nil {
		t.Fatal("Put succeeded")
	}
	server.Break(nil)
	for _, c := range []struct {
		age         time.Duration
		gone, still int
	}{{time.Hour, 0, 1}, {-time.Hour, 1, 0}, {-time.Hour, 0, 0}} {
		gone, err := s.RemoveAbandoned(t.Context(), time.Now().Add(-c.age))
		must(t, err)
		still, err := s.Uploads(t.Context())
		must(t, err)
		if gone != c.gone || still != c.still {
			t.Errorf("uploads older than %s: %d were deleted and %d remain, want %d and %d", c.age, gone, still, c.gone, c.still)
		}
	}
}

// TestOpenErrors checks that errors of Open say what an operator can do, and
// contain no secret.
func TestOpenErrors(t *testing.T) {
	t.Parallel()
	server, url := s3test.Own(t)
	for _, c := range []struct{ url, want string }{
		{server.URL("nowhere"), "has no bucket 'nowhere'; create it, or name another"},
		{strings.Replace(url, "region=eu-test-1", "region=us-west-2", 1), "is in another region than was asked for"},
		{"s3://bucket?endpoint=http://127.0.0.1:1&region=x", "connection refused"},
		{"s3://key:hush@bucket", "holds credentials"},
		{"s3://bucket?secret_key=hush", "unknown or repeated"},
		{"s3://bucket?region=a&region=b", "unknown or repeated"},
		{"s3://bucket?path_style=perhaps", "true or false"},
		{"s3://bucket?endpoint=ftp://x", "endpoint is not a URL"},
		{"s3://bucket?endpoint=http://key:hush@x", "endpoint is not a URL"},
		{"s3://bucket?endpoint=http://x/path", "endpoint is not a URL"},
		{"s3://Bucket", "name 'Bucket' is not valid"},
		{"s3://bucket/a//b", "prefix 'a//b' is not valid"},
		{"s3://bucket/" + strings.Repeat("a/", 250), "is not valid"},
		{"s3://bucket/x#y", "holds a '#'"},
		{"file:///tmp", "is not a URL such as s3://"},
		{"s3://%zz", "is not a URL such as s3://"},
	} {
		_, err := s3.Open(t.Context(), s3.Config{URL: c.url})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("Open(%s) = %v, want %q", c.url, err, c.want)
		}
		if err != nil && strings.Contains(err.Error(), "hush") {
			t.Errorf("the error shows a secret: %v", err)
		}
	}
}

// TestOpenProbesAllPermissions denies each call of Open in turn. The error of Open must
// name the denied operation.
func TestOpenProbesAllPermissions(t *testing.T) {
	t.Parallel()
	server, url := s3test.Own(t)
	for call, want := range []string{
		"writing an object", "reading an object", "listing objects", "writing an object that exists",
		"completing the upload of an object that exists", "completing the upload", "completing the upload", "dropping its upload", "deleting an object",
	} {
		server.Break(nth(call+1, s3test.Deny))
		_, err := s3.Open(t.Context(), s3.Config{URL: url})
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "denies access to the bucket '"+bucketOf(url)+"'; its credentials need s3:GetObject") {
			t.Errorf("with call %d denied, Open = %v, want %q", call+1, err, want)
		}
	}
	server.Break(nil)
	s := open(t, url)
	if calls := server.Calls(); calls != 9 {
		t.Errorf("Open made %d calls, want 9", calls)
	}
	_, err := s.RemoveAbandoned(t.Context(), time.Now().Add(time.Hour))
	must(t, err)
}

// TestOpenRefusesServersThatOverwrite makes the second write of an object succeed, as on a
// server that ignores the header If-None-Match. Open must fail.
func TestOpenRefusesServersThatOverwrite(t *testing.T) {
	t.Parallel()
	server, url := s3test.Own(t)
	for call, want := range map[int]string{4: "writing an object that exists", 7: "completing the upload of an object that exists"} {
		server.Break(nth(call, s3test.Accept))
		_, err := s3.Open(t.Context(), s3.Config{URL: url})
		if err == nil || !strings.Contains(err.Error(), want+": it does not honour 'If-None-Match: *'") {
			t.Errorf("a server that accepts call %d: %v", call, err)
		}
	}
}

// TestOpenRefusesServersThatListLate makes the list of the probe's object empty. Open must
// fail.
func TestOpenRefusesServersThatListLate(t *testing.T) {
	t.Parallel()
	server, url := s3test.Own(t)
	server.Break(nth(3, s3test.Accept))
	if _, err := s3.Open(t.Context(), s3.Config{URL: url}); err == nil || !strings.Contains(err.Error(), "listing objects: it did not list the object") {
		t.Errorf("a server with an empty list: %v", err)
	}
}

func bucketOf(url string) string {
	name, _, _ := strings.Cut(strings.TrimPrefix(url, s3.Scheme), "?")
	return name
}

// TestStalledGet checks that a reader closes a connection that delivers no more bytes, and
// continues on a new connection.
func TestStalledGet(t *testing.T) {
	t.Parallel()
	server, s := own(t)
	content := noise(1 << 20)
	put(t, s, "a/k", content)
	s.UseShortStall()
	server.Break(nth(1, s3test.Stall))
	if got, err := read(s, "a/k"); err != nil || !bytes.Equal(got, content) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if calls := server.Calls(); calls < 2 {
		t.Errorf("%d calls, want 2 or more", calls)
	}
}
