package contract_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

var downloadCases = []testCase{
	{"a download redirects to a URL that needs no token", downloadLink},
	{"ranges and tags of a download", downloadRanges},
	{"a version always has the same bytes", sameBytes},
	{"an empty version is an empty archive", emptyVersion},
	{"a file set without a version", noVersion},
	{"a modified download link", changedLink},
}

func sum(s string) string {
	h := sha256.Sum256([]byte(s))
	return hex.EncodeToString(h[:])
}

func escapePath(path string) string {
	parts := strings.Split(path, "/")
	for i, p := range parts {
		parts[i] = url.PathEscape(p)
	}
	return strings.Join(parts, "/")
}

// link requests a download and returns the URL to which the response redirects.
func (w *tenant) link(path string) string {
	w.Helper()
	a := w.do(request{method: "GET", path: path})
	if a.StatusCode != http.StatusFound || len(a.body) != 0 {
		w.Fatalf("GET %s returned %d %s", path, a.StatusCode, a.body)
	}
	return a.Header.Get("Location")
}

func (w *tenant) download(path string) []byte {
	w.Helper()
	a := w.do(request{method: "GET", path: w.link(path), token: "-"})
	if a.StatusCode != http.StatusOK {
		w.Fatalf("the archive of %s returned %d %s", path, a.StatusCode, a.body)
	}
	return a.body
}

func downloadLink(w *tenant) {
	v := w.volume("data", object{"a": "text"})
	at := "/v1/volumes/" + v.VolumeID + "/download"
	link := w.link(at)
	if u, err := url.Parse(link); err != nil || !u.IsAbs() {
		w.Errorf("Location is %s", link)
	}
	for _, token := range []string{"-", "", "nonsense", "stint_live_" + strings.Repeat("0", 64)} { // the Authorization header is ignored
		a := w.do(request{method: "GET", path: link, token: token})
		w.equal("status", 200, a.StatusCode)
		w.equal("type", "application/gzip", a.Header.Get("Content-Type"))
		w.equal("length", strconv.Itoa(len(a.body)), a.Header.Get("Content-Length"))
		w.equal("disposition", `attachment; filename="data-v1.tar.gz"`, a.Header.Get("Content-Disposition"))
		w.equal("content", "text", unpack(w, a.body)["a"].Text)
		if tag := a.Header.Get("ETag"); len(tag) < 3 || tag[0] != '"' {
			w.Errorf("ETag is %q", tag)
		}
	}
	head := w.do(request{method: "HEAD", path: at})
	w.equal("HEAD", 302, head.StatusCode)
	w.wantError(request{method: "GET", path: at, token: "-"}, 401, badKey)
	w.equal("following as a client does", "text", unpack(w, w.download(at+"?versionId="+v.ID))["a"].Text)
	w.wantError(request{method: "GET", path: at + "?versionId="}, 404, notFound)
}

func downloadRanges(w *tenant) {
	v := w.volume("data", object{"a": strings.Repeat("some text ", 10_000), "b": "short"})
	link := w.link("/v1/volumes/" + v.VolumeID + "/download")
	ask := func(header map[string]string) response {
		return w.do(request{method: "GET", path: link, token: "-", header: header})
	}
	whole := ask(nil)
	n := len(whole.body)
	tag := whole.Header.Get("ETag")
	for given, want := range map[string][]byte{
		"bytes=0-0": whole.body[:1], "bytes=10-99": whole.body[10:100], fmt.Sprintf("bytes=%d-", n-5): whole.body[n-5:], "bytes=-7": whole.body[n-7:], "bytes=0-999999999": whole.body,
	} {
		a := ask(map[string]string{"Range": given})
		if a.StatusCode != 206 || string(a.body) != string(want) {
			w.Errorf("%s returned %d, %d bytes", given, a.StatusCode, len(a.body))
		}
	}
	a := ask(map[string]string{"Range": "bytes=1-2", "If-Range": tag})
	w.equal("If-Range with the tag", 206, a.StatusCode)
	a = ask(map[string]string{"Range": "bytes=1-2", "If-Range": `"another"`})
	w.equal("If-Range with another tag", []int{200, n}, []int{a.StatusCode, len(a.body)})
	w.wantError(request{method: "GET", path: link, token: "-", header: map[string]string{"Range": fmt.Sprintf("bytes=%d-", n)}}, 416, "invalid_request_error range_not_satisfiable")
	a = ask(map[string]string{"If-None-Match": tag})
	w.equal("If-None-Match", []int{304, 0}, []int{a.StatusCode, len(a.body)})
	a = w.do(request{method: "HEAD", path: link, token: "-"})
	w.equal("HEAD", []any{200, int64(n), tag, 0}, []any{a.StatusCode, a.ContentLength, a.Header.Get("ETag"), len(a.body)})
}

func sameBytes(w *tenant) {
	v := w.volume("data", object{"a": strings.Repeat("text", 100_000), "b/c": "short"})
	at := "/v1/volumes/" + v.VolumeID + "/download"
	first := sum(string(w.download(at)))
	w.volume("data", object{"a": "another"})
	for _, asked := range []string{v.ID, "v1", "1"} {
		w.equal("bytes of "+asked, first, sum(string(w.download(at+"?versionId="+asked))))
	}
	if sum(string(w.download(at))) == first {
		w.Error("the new head has the old bytes")
	}
	tag := func(version string) string {
		return w.do(request{method: "HEAD", path: w.link(at + "?versionId=" + version), token: "-"}).Header.Get("ETag")
	}
	w.equal("tag", tag("v1"), tag(v.ID))
	if tag("v1") == tag("v2") {
		w.Errorf("two versions have the tag %s", tag("v1"))
	}
	// An artifact with the same content, pushed in another order, has the same files.
	t := w.newTree("artifacts", "copy")
	w.push("artifacts", t.ID, pack(w, entry{Name: "b/c", Text: "short"}, entry{Name: "a", Text: strings.Repeat("text", 100_000)}))
	got := unpack(w, w.download("/v1/artifacts/"+t.ID+"/download"))
	w.equal("a copy", []string{"short", strings.Repeat("text", 100_000)}, []string{got["b/c"].Text, got["a"].Text})
}

func emptyVersion(w *tenant) {
	for _, kind := range treeKinds {
		t := w.newTree(kind, "data")
		v := w.push(kind, t.ID, pack(w))
		w.equal("size", []int64{0, 0}, []int64{v.Size, v.FileCount})
		for name := range unpack(w, w.download("/v1/"+kind+"/"+t.ID+"/download")) {
			if name != "" && name != "." {
				w.Errorf("an empty version has %q", name)
			}
		}
		w.equal("files", 0, len(list[object](w, "/v1/"+kind+"/"+t.ID+"/versions/latest/files", nil)))
	}
	w.run(object{"artifactName": "nothing"})
	unpack(w, w.download("/v1/artifacts/"+w.tree("artifacts", "nothing").ID+"/download"))
}

func noVersion(w *tenant) {
	for _, kind := range treeKinds {
		t := w.newTree(kind, "data")
		for _, query := range []string{"", "?versionId=latest", "?versionId=v1", "?versionId=1"} {
			w.wantError(request{method: "GET", path: "/v1/" + kind + "/" + t.ID + "/download" + query}, 404, notFound)
		}
	}
}

func changedLink(w *tenant) {
	v := w.volume("data", object{"a": "text"})
	link := w.link("/v1/volumes/" + v.VolumeID + "/download")
	at := strings.LastIndex(link, "/") + 1
	for i := at; i < len(link); i += 9 {
		other := byte('A')
		if link[i] == 'A' {
			other = 'B'
		}
		w.wantError(request{method: "GET", path: link[:i] + string(other) + link[i+1:], token: "-"}, 403, badScope)
	}
	w.wantError(request{method: "GET", path: link[:at] + "nonsense", token: "-"}, 403, badScope)
	w.wantError(request{method: "GET", path: link + "A", token: "-"}, 403, badScope)
	w.must(204, request{method: "DELETE", path: "/v1/volumes/" + v.VolumeID}, nil)
	a := w.do(request{method: "GET", path: link, token: "-"})
	w.equal("a link to what was deleted", 404, a.StatusCode)
}
