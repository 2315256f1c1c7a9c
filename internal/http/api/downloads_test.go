package api_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/http/api"
)

// link requests a download and returns the path in the Location header of the
// redirect.
func (w *world) link(path string) string {
	w.Helper()
	a := w.do(request{method: "GET", path: path})
	location := a.Header.Get("Location")
	rest, ok := strings.CutPrefix(location, w.url)
	if a.StatusCode != http.StatusFound || !ok || len(a.body) != 0 {
		w.Fatalf("%s returned %d, Location %q, %q", path, a.StatusCode, location, a.body)
	}
	return rest
}

func TestDownloads(t *testing.T) {
	w := newWorld(t)
	words := w.fixture()
	at := "/v1/volumes/" + words["volume"]
	path := w.link(at + "/download")
	whole := w.do(request{method: "GET", path: path, token: "-"})
	if whole.StatusCode != 200 || whole.ContentLength != int64(len(whole.body)) {
		t.Fatalf("status %d, length %d of %d", whole.StatusCode, whole.ContentLength, len(whole.body))
	}
	zr, err := gzip.NewReader(bytes.NewReader(whole.body))
	if err != nil {
		t.Fatal(err)
	}
	tr := tar.NewReader(zr)
	h, err := tr.Next()
	if err != nil || h.Name != "a.txt" {
		t.Fatalf("the first entry of the archive is %v, %v", h, err)
	}
	if text, err := io.ReadAll(tr); err != nil || string(text) != "hello" {
		t.Errorf("the file is %q, %v", text, err)
	}
	etag := whole.Header.Get("ETag")
	for name, want := range map[string]string{
		"Content-Type": "application/gzip", "Content-Disposition": `attachment; filename="data-v1.tar.gz"`, "Accept-Ranges": "bytes",
		"X-Content-Type-Options": "nosniff",
	} {
		if got := whole.Header.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	again := w.do(request{method: "GET", path: w.link(at + "/download?versionId=v1"), token: "-"})
	w.diff("bytes of the same version", whole.body, again.body)

	get := func(name, method, token string, header map[string]string, status int, body []byte) response {
		t.Helper()
		a := w.do(request{method: method, path: path, token: token, header: header, hostile: status >= 400})
		if a.StatusCode != status {
			t.Errorf("%s returned %d %s, want %d", name, a.StatusCode, a.body, status)
		}
		if body != nil && !bytes.Equal(body, a.body) {
			t.Errorf("%s returned %d bytes, want %d", name, len(a.body), len(body))
		}
		return a
	}
	ranged := func(v string) map[string]string { return map[string]string{"Range": v} }
	none := []byte{}
	head := get("HEAD", "HEAD", "-", nil, 200, none)
	w.diff("length by HEAD", whole.ContentLength, head.ContentLength)
	get("a good token is ignored", "GET", "", nil, 200, whole.body)
	get("a bad token is ignored", "GET", "nonsense", nil, 200, whole.body)
	part := get("a range", "GET", "-", ranged("bytes=2-9"), 206, whole.body[2:10])
	if got := part.Header.Get("Content-Range"); !strings.HasPrefix(got, "bytes 2-9/") {
		t.Errorf("Content-Range is %q", got)
	}
	get("the last bytes", "GET", "-", ranged("bytes=-5"), 206, whole.body[len(whole.body)-5:])
	get("an open range", "GET", "-", ranged("bytes=10-"), 206, whole.body[10:])
	get("several ranges", "GET", "-", ranged("bytes=0-1,4-5"), 206, nil)
	get("a range if unchanged", "GET", "-", map[string]string{"Range": "bytes=0-1", "If-Range": etag}, 206, whole.body[:2])
	get("a range if unchanged, with another tag", "GET", "-", map[string]string{"Range": "bytes=0-1", "If-Range": `"x"`}, 200, whole.body)
	get("known ETag", "GET", "-", map[string]string{"If-None-Match": etag}, 304, none)
	beyond := get("beyond the end", "GET", "-", ranged("bytes=999999-"), 416, nil)
	if beyond.errorOf() != "invalid_request_error range_not_satisfiable" || beyond.Header.Get("Content-Range") == "" || beyond.Header.Get("Content-Disposition") != "" {
		t.Errorf("beyond the end returned %s, %v", beyond.body, beyond.Header)
	}
	path += "A"
	if a := get("changed", "GET", "", nil, 403, nil); !strings.Contains(string(a.body), scope) {
		t.Errorf("a changed link returned %s", a.body)
	}
	path = path[:len(path)-4]
	get("cut", "GET", "-", nil, 403, nil)
	path = w.link(at + "/download")
	get("POST", "POST", "-", nil, 405, nil)
	w.pass(59 * time.Minute)
	get("before the expiry", "GET", "-", nil, 200, nil)
	w.pass(time.Minute)
	if a := get("after the expiry", "GET", "", nil, 410, nil); a.errorOf() != "gone_error link_expired" {
		t.Errorf("an expired link returned %s", a.body)
	}
	get("after the expiry, HEAD", "HEAD", "-", nil, 410, nil)
	path += "A"
	get("changed, after the expiry", "GET", "-", nil, 403, nil)
	path = "/v1/downloads/nonsense"
	get("malformed", "GET", "-", nil, 403, nil)

	path = w.link(at + "/download")
	if a := w.do(request{method: "DELETE", path: at}); a.StatusCode != 204 {
		t.Fatal(a.StatusCode)
	}
	get("deleted", "GET", "-", nil, 404, nil)
}

func TestDownloadOfEmptyVersion(t *testing.T) {
	w := newWorld(t, func(c *api.Config) { c.PublicURL = "https://stint.example.com/" })
	words := w.fixture()
	at := "/v1/artifacts/" + words["artifact"]
	w.decode(w.do(request{method: "POST", path: at + "/versions", body: archive(w, nil)}), 201, &stint.FileSetVersion{})
	location := w.do(request{method: "GET", path: at + "/download"}).Header.Get("Location")
	path, ok := strings.CutPrefix(location, "https://stint.example.com/v1/")
	if !ok {
		t.Fatalf("the link is %q", location)
	}
	a := w.do(request{method: "GET", path: "/v1/" + path, token: "-"})
	zr, err := gzip.NewReader(bytes.NewReader(a.body))
	if err != nil {
		t.Fatal(err)
	}
	if h, err := tar.NewReader(zr).Next(); err != io.EOF {
		t.Errorf("the archive contains %v, %v", h, err)
	}
}

func TestFiles(t *testing.T) {
	w := newWorld(t)
	words := w.fixture()
	at := "/v1/volumes/" + words["volume"]
	odd := `dir/ü "q"; <b>%41.html`
	page := "<script>alert(1)</script>"
	w.decode(w.do(request{method: "POST", path: at + "/versions", body: archive(w, map[string]string{odd: page, "empty": ""})}), 201, &stint.FileSetVersion{})
	path := at + "/versions/latest/files/dir/%C3%BC%20%22q%22%3B%20%3Cb%3E%2541.html"
	a := w.do(request{method: "GET", path: path})
	if a.StatusCode != 200 || string(a.body) != page {
		t.Fatalf("status %d, %q", a.StatusCode, a.body)
	}
	sum := sha256.Sum256([]byte(page))
	for name, want := range map[string]string{
		"Content-Type": "application/octet-stream", "X-Content-Type-Options": "nosniff", "Etag": `"` + hex.EncodeToString(sum[:]) + `"`,
		"Content-Disposition":     `attachment; filename="_ _q__ <b>_41.html"; filename*=UTF-8''%C3%BC%20%22q%22%3B%20%3Cb%3E%2541.html`,
		"Content-Security-Policy": "default-src 'none'; sandbox",
	} {
		if got := a.Header.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	part := w.do(request{method: "GET", path: path, header: map[string]string{"Range": "bytes=1-6"}})
	if part.StatusCode != 206 || string(part.body) != page[1:7] {
		t.Errorf("a range returned %d %q", part.StatusCode, part.body)
	}
	if a := w.do(request{method: "GET", path: path, header: map[string]string{"If-None-Match": a.Header.Get("Etag")}}); a.StatusCode != 304 {
		t.Errorf("a file with a known ETag returned %d", a.StatusCode)
	}
	if a := w.do(request{method: "GET", path: at + "/versions/latest/files/empty"}); a.StatusCode != 200 || len(a.body) != 0 {
		t.Errorf("an empty file returned %d %q", a.StatusCode, a.body)
	}
	if a := w.do(request{method: "GET", path: at + "/versions/latest/files/dir", hostile: true}); a.errorOf() != "invalid_request_error invalid_parameter" {
		t.Errorf("a folder returned %d %s", a.StatusCode, a.body)
	}
}

func TestPush(t *testing.T) {
	w := newWorld(t)
	words := w.fixture()
	at := "/v1/volumes/" + words["volume"] + "/versions"
	whole := archive(t, map[string]string{"b": "2"})
	var zipped bytes.Buffer
	zw := gzip.NewWriter(&zipped)
	zw.Write(whole)
	if err := zw.Close(); err != nil {
		t.Fatal(err)
	}
	typ := func(v string) map[string]string { return map[string]string{"Content-Type": v} }
	with := func(h map[string]string, name, value string) map[string]string { h[name] = value; return h }
	w.run(t, words, []row{
		{"no type", "POST", at, "", typ(""), whole, 415, []string{media}, nil},
		{"a document", "POST", at, "", typ("application/json"), whole, 415, []string{media}, nil},
		{"a form", "POST", at, "", typ("multipart/form-data; boundary=x"), whole, 415, []string{media}, nil},
		{"no archive", "POST", at, "", typ("application/gzip"), whole, 400, []string{invalid}, nil},
		{"cut short", "POST", at, "", nil, whole[:700], 400, []string{invalid}, nil},
		{"no content", "POST", at, "", typ("application/x-tar"), nil, 400, []string{invalid}, nil},
		{"a path outside", "POST", at, "", nil, archive(t, map[string]string{"../x": "1"}), 400, []string{invalid}, nil},
		{"another head", "POST", at, "", with(typ("application/x-tar"), "If-Match", "v9_aaaaaaaaaaaaaaaaaaaa"), whole, 409, []string{`"type":"conflict_error","code":"version_conflict"`}, nil},
		{"the head", "POST", at + "?message=second%20one", "", with(typ("application/x-tar"), "If-Match", `"`+words["version"]+`"`), whole, 201, []string{`"id":"v2_`, `"message":"second one"`, `"createdBy":"user:ann"`, `"volumeId":"{volume}"`, `"fileCount":1`}, nil},
		{"the same, compressed", "POST", at, "", typ("application/gzip"), zipped.Bytes(), 200, []string{`"id":"v2_`}, nil},
		{"a version", "GET", at + "/2", "", nil, nil, 200, []string{`"message":"second one"`}, nil},
		{"the volume", "GET", "/v1/volumes/{volume}", "", nil, nil, 200, []string{`"currentVersion":{"id":"v2_`}, nil},
		{"an empty artifact", "GET", "/v1/artifacts/{artifact}", "", nil, nil, 200, []string{`"currentVersionId":null`, `"currentVersion":null`, `"size":0`}, nil},
	})
}
