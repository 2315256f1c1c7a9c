package api_test

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/stint-dev/stint"
)

func digestOf(b []byte) string {
	sum := sha256.Sum256(b)
	return "sha-256=:" + base64.StdEncoding.EncodeToString(sum[:]) + ":"
}

// volumeWith pushes the files as version v2 of the fixture's volume and returns the
// volume's path in the API.
func (w *world) volumeWith(files map[string]string) string {
	w.Helper()
	at := "/v1/volumes/" + w.fixture()["volume"]
	w.decode(w.do(request{method: "POST", path: at + "/versions", body: archive(w, files)}), 201, &stint.FileSetVersion{})
	return at
}

func TestDownloadFormats(t *testing.T) {
	w := newWorld(t)
	at := w.volumeWith(map[string]string{"a.txt": "hello", "b/c": strings.Repeat("many words ", 9000)})
	for _, tt := range []struct{ query, accept, contentType, name string }{
		{"", "", "application/gzip", "data-v2.tar.gz"},
		{"", "*/*", "application/gzip", "data-v2.tar.gz"},
		{"", "application/json", "application/gzip", "data-v2.tar.gz"},
		{"", "text/html, application/xml;q=0.9, */*;q=0.8", "application/gzip", "data-v2.tar.gz"},
		{"", "application/zip", "application/zip", "data-v2.zip"},
		{"", "application/gzip;q=0.5, application/zip;q=0.7", "application/zip", "data-v2.zip"},
		{"", "application/gzip;q=0, application/*", "application/zip", "data-v2.zip"},
		{"", "application/x-tar;q=0.1", "application/x-tar", "data-v2.tar"},
		{"", "application/zstd", "application/zstd", "data-v2.tar.zst"},
		{"?format=tar", "application/zip", "application/x-tar", "data-v2.tar"},
		{"?format=tar.zst", "", "application/zstd", "data-v2.tar.zst"},
		{"?format=zip&versionId=2", "", "application/zip", "data-v2.zip"},
		{"?format=tar.gz", "application/zip", "application/gzip", "data-v2.tar.gz"},
	} {
		header := map[string]string{}
		if tt.accept != "" {
			header["Accept"] = tt.accept
		}
		a := w.do(request{method: "GET", path: at + "/download" + tt.query, header: header})
		location, err := url.Parse(a.Header.Get("Location"))
		if a.StatusCode != 302 || err != nil || a.Header.Get("Vary") != "Accept" {
			t.Fatalf("%+v returned %d, %v, %v", tt, a.StatusCode, a.Header, err)
		}
		got := w.do(request{method: "GET", path: location.Path, token: "-"})
		if got.StatusCode != 200 || got.Header.Get("Content-Type") != tt.contentType || got.Header.Get("Content-Disposition") != `attachment; filename="`+tt.name+`"` {
			t.Errorf("%+v returned %d %v", tt, got.StatusCode, got.Header)
		}
		head := w.do(request{method: "HEAD", path: location.Path, token: "-"})
		if head.StatusCode != 200 || len(head.body) > 0 || head.Header.Get("ETag") != got.Header.Get("ETag") ||
			head.ContentLength != got.ContentLength && tt.contentType != "application/zstd" {
			t.Errorf("HEAD of %+v returned %d %v", tt, head.StatusCode, head.Header)
		}
	}
	for _, bad := range []string{"?format=rar", "?format=", "?format=zip&format=tar"} {
		if a := w.do(request{method: "GET", path: at + "/download" + bad, hostile: true}); a.errorOf() != "invalid_request_error invalid_parameter" {
			t.Errorf("%s returned %d %s", bad, a.StatusCode, a.body)
		}
	}
	if a := w.do(request{method: "HEAD", path: at + "/download"}); a.StatusCode != 302 || a.Header.Get("Location") == "" {
		t.Errorf("HEAD of the link returned %d %v", a.StatusCode, a.Header)
	}
}

// TestResumedDownloads resumes downloads at random positions.
func TestResumedDownloads(t *testing.T) {
	w := newWorld(t)
	noise := make([]byte, 300_000)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range noise {
		noise[i] = byte(r.Uint32())
	}
	at := w.volumeWith(map[string]string{"a": "hello", "b/c": strings.Repeat("many words ", 90_000), "noise": string(noise)})
	tags := map[string]bool{}
	for _, format := range []string{"tar.gz", "tar", "zip"} {
		path := w.link(at + "/download?format=" + format)
		whole := w.do(request{method: "GET", path: path, token: "-"})
		tag := whole.Header.Get("ETag")
		if tags[tag] || whole.Header.Get("Accept-Ranges") != "bytes" || whole.ContentLength != int64(len(whole.body)) {
			t.Errorf("%s has the headers %v", format, whole.Header)
		}
		tags[tag] = true
		for range 12 {
			cut := 1 + r.IntN(len(whole.body)-1)
			header := map[string]string{"Range": "bytes=" + strconv.Itoa(cut) + "-", "If-Range": tag}
			rest := w.do(request{method: "GET", path: path, token: "-", header: header})
			if rest.StatusCode != 206 || !bytes.Equal(append(bytes.Clone(whole.body[:cut]), rest.body...), whole.body) {
				t.Errorf("%s resumed at %d returned status %d and %d bytes", format, cut, rest.StatusCode, len(rest.body))
			}
		}
		if a := w.do(request{method: "GET", path: path, token: "-", header: map[string]string{"If-None-Match": `"x", ` + tag}}); a.StatusCode != 304 {
			t.Errorf("%s with a known ETag returned %d", format, a.StatusCode)
		}
	}
}

func TestZstdDownloads(t *testing.T) {
	w := newWorld(t)
	at := w.volumeWith(map[string]string{"a": strings.Repeat("many words ", 90_000)})
	plain := w.do(request{method: "GET", path: w.link(at + "/download?format=tar"), token: "-"})
	path := w.link(at + "/download?format=tar.zst")
	a := w.do(request{method: "GET", path: path, token: "-", header: map[string]string{"Range": "bytes=1-2", "Want-Repr-Digest": "sha-256=1"}})
	z, err := zstd.NewReader(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	got, err := z.DecodeAll(a.body, nil)
	if a.StatusCode != 200 || err != nil || !bytes.Equal(got, plain.body) {
		t.Errorf("status %d, %d bytes for %d, %v", a.StatusCode, len(got), len(plain.body), err)
	}
	if a.Header.Get("Accept-Ranges") != "none" || a.Header.Get("Repr-Digest") != "" || !strings.HasPrefix(a.Header.Get("ETag"), `W/"`) {
		t.Errorf("headers %v", a.Header)
	}
	for tag, want := range map[string]int{a.Header.Get("ETag"): 304, "*": 304, `"x"`: 200} {
		if a := w.do(request{method: "GET", path: path, token: "-", header: map[string]string{"If-None-Match": tag}}); a.StatusCode != want {
			t.Errorf("If-None-Match %s returned %d", tag, a.StatusCode)
		}
	}
}

func TestReprDigest(t *testing.T) {
	w := newWorld(t)
	at := w.volumeWith(map[string]string{"a": "hello", "b": strings.Repeat("many words ", 900)})
	for _, format := range []string{"tar.gz", "zip", "tar"} {
		path := w.link(at + "/download?format=" + format)
		get := func(method string, header map[string]string) response {
			return w.do(request{method: method, path: path, token: "-", header: header})
		}
		whole := get("GET", nil)
		for _, header := range []map[string]string{nil, {"Want-Repr-Digest": "sha-512=3, sha-256=0"}, {"Want-Repr-Digest": "md5"}} {
			if got := get("GET", header).Header.Get("Repr-Digest"); got != "" {
				t.Errorf("%s has the digest %q, which was not requested: %v", format, got, header)
			}
		}
		want := digestOf(whole.body)
		for _, tt := range []struct {
			method string
			header map[string]string
		}{
			{"HEAD", map[string]string{"Want-Repr-Digest": "sha-512=3, sha-256=10"}},
			{"GET", nil},
			{"GET", map[string]string{"Range": "bytes=3-5"}},
			{"GET", map[string]string{"If-None-Match": whole.Header.Get("ETag")}},
		} {
			if a := get(tt.method, tt.header); a.Header.Get("Repr-Digest") != want {
				t.Errorf("%s %s %v: status %d, headers %v, want the digest %q", format, tt.method, tt.header, a.StatusCode, a.Header, want)
			}
		}
	}
	for _, part := range []map[string]string{nil, {"Range": "bytes=1-2"}} {
		if a := w.do(request{method: "GET", path: at + "/versions/2/files/a", header: part}); a.Header.Get("Repr-Digest") != digestOf([]byte("hello")) {
			t.Errorf("a file has the headers %v", a.Header)
		}
	}
	beyond := w.do(request{method: "GET", path: at + "/versions/2/files/a", header: map[string]string{"Range": "bytes=99-"}, hostile: true})
	if beyond.StatusCode != 416 || beyond.Header.Get("Repr-Digest") != "" {
		t.Errorf("a range outside the file: status %d, headers %v", beyond.StatusCode, beyond.Header)
	}
}

func TestZipDownload(t *testing.T) {
	w := newWorld(t)
	at := w.volumeWith(map[string]string{"ü/a": "hello"})
	body := w.do(request{method: "GET", path: w.link(at + "/download?format=zip"), token: "-"}).body
	z, err := zip.NewReader(bytes.NewReader(body), int64(len(body)))
	if err != nil || len(z.File) != 2 || z.File[0].Name != "ü/" || z.File[1].Name != "ü/a" {
		t.Fatalf("%v, %v", z, err)
	}
}

func TestVolumesByName(t *testing.T) {
	w := newWorld(t)
	words := w.fixture()
	w.run(t, words, []row{
		{"by name", "GET", "/v1/volumes?name=data", "", nil, nil, 200, []string{`{"data":[{"id":"{volume}"`, `"hasMore":false`}, nil},
		{"prefix of a name", "GET", "/v1/volumes?name=dat", "", nil, nil, 200, []string{`"data":[]`, `"hasMore":false`}, nil},
		{"empty name", "GET", "/v1/volumes?name=", "", nil, nil, 400, []string{invalid}, nil},
		{"two names", "GET", "/v1/volumes?name=a&name=b", "", nil, nil, 400, []string{invalid}, nil},
		{"invalid name", "GET", "/v1/volumes?name=A%20B%00", "", nil, nil, 200, []string{`"data":[]`}, nil},
		{"of the other kind", "GET", "/v1/artifacts?name=data", "", nil, nil, 200, []string{`"data":[]`}, nil},
		{"with a bad limit", "GET", "/v1/volumes?name=data&limit=0", "", nil, nil, 400, []string{invalid}, nil},
		{"with a bad cursor", "GET", "/v1/volumes?name=data&cursor=x", "", nil, nil, 400, []string{invalid}, nil},
	})
}

func TestDiffs(t *testing.T) {
	w := newWorld(t)
	words := w.fixture() // version 1 of the volume contains a.txt with the text hello
	at := "/v1/volumes/{volume}"
	push := func(files map[string]string) {
		w.decode(w.do(request{method: "POST", path: "/v1/volumes/" + words["volume"] + "/versions", body: archive(w, files)}), 201, &stint.FileSetVersion{})
	}
	push(map[string]string{"a.txt": "hallo\n", "dir/b": "1", "dir/c": "22", "e": "3"})
	push(map[string]string{"dir/b": "1", "dir/d": "22", "e": "4", "moved.txt": "hallo\n"})
	unified := map[string]string{"Accept": "text/x-diff"}
	w.run(t, words, []row{
		{"a page", "GET", at + "/diff?from=2&to=3&limit=2", "", nil, nil, 200, []string{`"path":"dir/d","change":"renamed","from":{"path":"dir/c"`, `"path":"e","change":"changed"`, `"hasMore":true`}, nil},
		{"all", "GET", at + "/diff?from=2", "", nil, nil, 200, []string{`"path":"moved.txt","change":"renamed","from":{"path":"a.txt"`, `"hasMore":false`}, nil},
		{"lines", "GET", at + "/diff?from=2&to=3&path=e&format=unified", "", nil, nil, 200, []string{"--- a/e\n+++ b/e\n@@ -1 +1 @@\n-3\n"}, nil},
		{"lines by Accept", "GET", at + "/diff?from=1&to=2&path=a.txt", "", unified, nil, 200, []string{"-hello\n", "+hallo\n"}, nil},
		{"lines without a path", "GET", at + "/diff?from=1&format=unified", "", nil, nil, 400, []string{`"code":"missing_parameter"`, `"param":"path"`}, nil},
		{"a path without lines", "GET", at + "/diff?from=1&path=e", "", nil, nil, 400, []string{invalid, "format=unified"}, nil},
		{"another format", "GET", at + "/diff?from=1&path=e&format=html", "", nil, nil, 400, []string{invalid}, nil},
		{"lines of an unknown file", "GET", at + "/diff?from=1&path=none&format=unified", "", nil, nil, 404, nil, nil},
		{"lines of a folder", "GET", at + "/diff?from=1&path=dir&format=unified", "", nil, nil, 400, []string{invalid}, nil},
		{"below a folder", "GET", at + "/versions/2/files?prefix=dir/", "", nil, nil, 200, []string{`"path":"dir/b"`, `"path":"dir/c"`, `"hasMore":false`}, []string{"a.txt", `"path":"e"`}},
		{"a page below a folder", "GET", at + "/versions/2/files?prefix=dir/&limit=1", "", nil, nil, 200, []string{`"path":"dir/b"`, `"hasMore":true`}, []string{"dir/c"}},
	})
	a := w.do(request{method: "GET", path: "/v1/volumes/" + words["volume"] + "/diff?from=2&to=3&path=e&format=unified"})
	if a.Header.Get("Content-Type") != "text/x-diff" || a.Header.Get("X-Content-Type-Options") != "nosniff" || a.Header.Get("Content-Security-Policy") == "" {
		t.Errorf("headers %v", a.Header)
	}
	var first, second stint.Page[stint.FileChange]
	w.decode(w.do(request{method: "GET", path: "/v1/volumes/" + words["volume"] + "/diff?from=2&to=3&limit=2"}), http.StatusOK, &first)
	w.decode(w.do(request{method: "GET", path: "/v1/volumes/" + words["volume"] + "/diff?from=2&to=3&limit=2&cursor=" + *first.Pagination.NextCursor}), http.StatusOK, &second)
	if len(second.Data) != 1 || second.Data[0].Path != "moved.txt" {
		t.Errorf("the second page is %+v", second)
	}
}
