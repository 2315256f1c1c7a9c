package contract_test

import (
	"archive/tar"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint"
)

var fileSetCases = []testCase{
	{"names and creation", names},
	{"objects of volumes and artifacts", treeObjects},
	{"files are stored exactly", exactFiles},
	{"formats of archives", formats},
	{"hostile archives are refused and not stored", hostileArchives},
	{"equal content does not create a version", equalContent},
	{"If-Match", ifMatch},
	{"files of a version", filesOfVersion},
	{"differences of versions", differences},
	{"versions by every specifier", specifiers},
	{"deletion", deletion},
}

var treeKinds = []string{"volumes", "artifacts"}

// tree returns the volume or artifact with this name. kind is "volumes" or "artifacts".
func (w *tenant) tree(kind, name string) (found stint.FileSet) {
	w.Helper()
	for _, t := range list[stint.FileSet](w, "/v1/"+kind, nil) {
		if t.Name == name {
			return t
		}
	}
	w.Fatalf("there is no %s", name)
	return found
}

func (w *tenant) newTree(kind, name string) (t stint.FileSet) {
	w.Helper()
	w.must(http.StatusCreated, request{method: "POST", path: "/v1/" + kind, body: object{"name": name}}, &t)
	return t
}

// volume pushes a version to the volume with this name. It creates the volume if the
// volume does not exist.
func (w *tenant) volume(name string, content object) stint.FileSetVersion {
	w.Helper()
	a := w.do(request{method: "POST", path: "/v1/volumes", body: object{"name": name}})
	if a.StatusCode != http.StatusCreated && a.apiError().Code != stint.CodeResourceAlreadyExists {
		w.Fatalf("POST /v1/volumes returned %s", a.body)
	}
	return w.push("volumes", w.tree("volumes", name).ID, pack(w, files(content)...))
}

func (w *tenant) push(kind, id string, archive []byte) (v stint.FileSetVersion) {
	w.Helper()
	w.must(http.StatusCreated, request{method: "POST", path: "/v1/" + kind + "/" + id + "/versions", body: archive}, &v)
	return v
}

func names(w *tenant) {
	good := []string{"a", "0", "a-b", "a--b", "0-9", strings.Repeat("x", 64)}
	bad := []string{"-a", "a-", "-", "A", "a b", "a_b", "a.b", "ä", "a/b", "..", "a\nb", strings.Repeat("x", 65)}
	body := map[string]func(string) object{
		"volumes":   func(n string) object { return object{"name": n} },
		"artifacts": func(n string) object { return object{"name": n} },
		"agents":    func(n string) object { return object{"name": n, "framework": "shell"} },
	}
	theirs := w.other()
	for kind, of := range body {
		for _, name := range good {
			w.must(201, request{method: "POST", path: "/v1/" + kind, body: of(name)}, nil)
			w.wantError(request{method: "POST", path: "/v1/" + kind, body: of(name)}, 409, exists, name)
		}
		for _, name := range bad {
			w.wantError(request{method: "POST", path: "/v1/" + kind, body: of(name)}, 400, invalid, "name")
		}
		w.wantError(request{method: "POST", path: "/v1/" + kind, body: of("")}, 400, missing, "name")
		w.wantError(request{method: "POST", path: "/v1/" + kind, body: object{"framework": "shell"}}, 400, missing)
		w.wantError(request{method: "POST", path: "/v1/" + kind, body: object{"name": 7, "framework": "shell"}}, 400, invalid, "name")
		theirs.must(201, request{method: "POST", path: "/v1/" + kind, body: of(good[0])}, nil)
	}
}

var treeMembers = []string{"createdAt", "currentVersion", "currentVersionId", "fileCount", "id", "name", "size", "updatedAt"}

func treeObjects(w *tenant) {
	for _, kind := range treeKinds {
		t := w.newTree(kind, "data")
		at := "/v1/" + kind + "/" + t.ID
		o := w.object(at)
		w.equal("members", treeMembers, keys(o))
		w.checkNulls(o, []string{"currentVersionId", "currentVersion"}, nil)
		w.equal("an empty one", []any{0.0, 0.0, "data"}, []any{o["size"], o["fileCount"], o["name"]})
		var v object
		w.must(201, request{method: "POST", path: at + "/versions?message=first+%C3%BC", body: pack(w, files(object{"a": "hello", "b/c": "x"})...)}, &v)
		parent := strings.TrimSuffix(kind, "s") + "Id"
		w.equal("a version", object{
			"id": v["id"], parent: t.ID, "size": 6.0, "fileCount": 2.0, "message": "first ü", "createdBy": "user:ann", "createdAt": v["createdAt"],
			"parentVersionId": nil, "origin": object{"type": "push", "runId": nil, "sessionId": nil},
		}, v)
		if id := v["id"].(string); !stint.IsFileSetVersion(id) || !strings.HasPrefix(id, "v1_") {
			w.Errorf("the first version is %s", id)
		}
		o = w.object(at)
		w.equal("current version", any(v), o["currentVersion"])
		w.equal("filled", []any{6.0, 2.0, v["id"]}, []any{o["size"], o["fileCount"], o["currentVersionId"]})
		items := list[object](w, "/v1/"+kind, nil)
		w.equal("items", 1, len(items))
		delete(o, "currentVersion")
		w.equal("an item", o, items[0])
		w.equal("versions", []object{v}, list[object](w, at+"/versions", nil))
		second := w.push(kind, t.ID, pack(w, files(object{"a": "other"})...))
		if !strings.HasPrefix(second.ID, "v2_") {
			w.Errorf("the second version is %s", second.ID)
		}
		long := strings.Repeat("m", 5000)
		w.wantError(request{method: "POST", path: at + "/versions?message=" + long, body: pack(w)}, 400, invalid, "message")
	}
}

// oddEntries returns entries with unusual names, types, modes, times, and sizes.
func oddEntries() []entry {
	stamp := time.Date(2001, 2, 3, 4, 5, 6, 0, time.UTC)
	return []entry{
		{Name: "plain", Text: "plain", Time: stamp},
		{Name: "script", Text: "#!/bin/sh\n", Mode: 0o755, Time: stamp.Add(time.Hour)},
		{Name: "secret", Text: "x", Mode: 0o600},
		{Name: "readonly", Text: "x", Mode: 0o444},
		{Name: "empty file"},
		{Name: "empty", Type: tar.TypeDir, Mode: 0o755, Time: stamp},
		{Name: "folder", Type: tar.TypeDir, Mode: 0o750, Time: stamp},
		{Name: "folder/link", Type: tar.TypeSymlink, Link: "../plain", Mode: 0o777},
		{Name: "folder/dangling", Type: tar.TypeSymlink, Link: "nothing", Mode: 0o777},
		{Name: " leading, tab\t, 'quotes' \"double\" $x; & \\ ü 漢字 😀", Text: "odd"},
		{Name: "line\nbreak", Text: "odd"},
		{Name: "percent%2f%00", Text: "odd"},
		{Name: "-rf", Text: "odd"},
		{Name: "~", Text: "odd"},
		{Name: strings.Repeat("long-", 50), Text: "odd"},
		{Name: "deep/" + strings.Repeat("d/", 40) + "file", Text: "odd"},
		{Name: "big", Text: strings.Repeat("0123456789abcdef", 200_000)},
	}
}

func exactFiles(w *tenant) {
	t := w.newTree("volumes", "odd")
	w.push("volumes", t.ID, pack(w, oddEntries()...))
	got := unpack(w, w.download("/v1/volumes/"+t.ID+"/download"))
	for _, want := range oddEntries() {
		if want.Mode == 0 {
			want.Mode = 0o644
		}
		if want.Type == 0 {
			want.Type = tar.TypeReg
		}
		if want.Time.IsZero() {
			want.Time = someTime
		}
		w.equal(fmt.Sprintf("%.40q", want.Name), want, got[want.Name])
	}
	// A run copies the volume to its artifact.
	r := w.run(object{"prompt": "cp -a /volumes/odd/. . && mkdir -m 700 made && ln -s made/x made/y && touch -d @1000000000 made/old && rm big", "volumes": object{"odd": "latest"}, "artifactName": "out"})
	out := unpack(w, w.download("/v1/artifacts/"+w.tree("artifacts", "out").ID+"/download?versionId="+*r.ArtifactVersion))
	for name, want := range got {
		if have, there := out[name]; name != "big" && name != "" && name != "." && want != have {
			w.Errorf("%.40q: in was %+v, out is %+v, %v", name, want, have, there)
		}
	}
	w.equal("made folder", int64(0o700), out["made"].Mode)
	w.equal("made link", "made/x", out["made/y"].Link)
	w.equal("made file", int64(1_000_000_000), out["made/old"].Time.Unix())
}

func formats(w *tenant) {
	t := w.newTree("volumes", "data")
	at := "/v1/volumes/" + t.ID + "/versions"
	for i, row := range []struct {
		contentType, encoding string
		pack                  func(testing.TB, []byte) []byte
	}{
		{"application/x-tar", "", func(_ testing.TB, b []byte) []byte { return b }},
		{"application/gzip", "", gzipped},
		{"application/x-gzip", "", gzipped},
		{"application/zstd", "", zstandard},
		{"application/x-tar", "gzip", gzipped},
	} {
		raw := pack(w, entry{Name: "a", Text: fmt.Sprint("version ", i)})
		w.must(201, request{method: "POST", path: at, body: row.pack(w, raw), header: map[string]string{"Content-Type": row.contentType, "Content-Encoding": row.encoding}, undocumented: true}, nil)
		w.equal(row.contentType, fmt.Sprint("version ", i), unpack(w, w.download("/v1/volumes/"+t.ID+"/download"))["a"].Text)
	}
	for _, contentType := range []string{"", "text/plain", "application/json", "application/zip", "multipart/form-data; boundary=x"} {
		w.wantError(request{method: "POST", path: at, body: pack(w, entry{Name: "a"}), header: map[string]string{"Content-Type": contentType}}, 415, badMedia)
	}
}

func hostileArchives(w *tenant) {
	device := func(kind byte) []entry { return []entry{{Name: "ok", Text: "x"}, {Name: "x", Type: kind}} }
	whole := pack(w, files(object{"a": strings.Repeat("x", 5000), "b": "y"})...)
	long := gzipped(w, pack(w, entry{Name: "a", Text: strings.Repeat("0123456789", 5000)}))
	damaged := append([]byte(nil), long...)
	damaged[len(damaged)-6] ^= 0xff // a byte of the checksum
	tarOf := func(entries ...entry) []byte { return pack(w, append([]entry{{Name: "ok", Text: "x"}}, entries...)...) }
	for name, archive := range map[string]struct {
		contentType string
		raw         []byte
	}{
		"absolute path":             {"application/x-tar", tarOf(entry{Name: "/etc/passwd", Text: "x"})},
		"path with dots":            {"application/x-tar", tarOf(entry{Name: "../x", Text: "x"})},
		"path with dots inside":     {"application/x-tar", tarOf(entry{Name: "a/../../x", Text: "x"})},
		"absolute link":             {"application/x-tar", tarOf(entry{Name: "l", Type: tar.TypeSymlink, Link: "/etc/passwd"})},
		"link that leaves":          {"application/x-tar", tarOf(entry{Name: "l", Type: tar.TypeSymlink, Link: "../x"})},
		"deep link that leaves":     {"application/x-tar", tarOf(entry{Name: "a/l", Type: tar.TypeSymlink, Link: "b/../../../x"})},
		"link that leaves by links": {"application/x-tar", tarOf(entry{Name: "a/b", Type: tar.TypeSymlink, Link: ".."}, entry{Name: "c", Type: tar.TypeSymlink, Link: "a/b/../x"})},
		"hard link that leaves":     {"application/x-tar", tarOf(entry{Name: "l", Type: tar.TypeLink, Link: "../x"})},
		"absolute hard link":        {"application/x-tar", tarOf(entry{Name: "l", Type: tar.TypeLink, Link: "/etc/passwd"})},
		"hard link to nothing":      {"application/x-tar", tarOf(entry{Name: "l", Type: tar.TypeLink, Link: "nothing"})},
		"character device":          {"application/x-tar", pack(w, device(tar.TypeChar)...)},
		"block device":              {"application/x-tar", pack(w, device(tar.TypeBlock)...)},
		"fifo":                      {"application/x-tar", pack(w, device(tar.TypeFifo)...)},
		"file under a file":         {"application/x-tar", tarOf(entry{Name: "a", Text: "x"}, entry{Name: "a/b", Text: "x"})},
		"file under a link":         {"application/x-tar", tarOf(entry{Name: "a", Type: tar.TypeSymlink, Link: "ok"}, entry{Name: "a/b", Text: "x"})},
		"tar cut short in a file":   {"application/x-tar", whole[:3000]},
		"tar cut short in a header": {"application/x-tar", whole[:200]},
		"gzip cut short":            {"application/gzip", long[:len(long)/2]},
		"gzip without its end":      {"application/gzip", long[:len(long)-8]},
		"gzip with a wrong sum":     {"application/gzip", damaged},
		"zstd cut short":            {"application/zstd", zstandard(w, whole)[:20]},
		"no archive":                {"application/x-tar", []byte(strings.Repeat("this is no archive ", 100))},
		"no gzip":                   {"application/gzip", whole},
		"no zstd":                   {"application/zstd", whole},
		"no tar in a gzip":          {"application/gzip", gzipped(w, []byte(strings.Repeat("this is no archive ", 100)))},
		"nothing":                   {"application/gzip", []byte{}},
	} {
		for _, kind := range treeKinds {
			t := w.newTree(kind, strings.ReplaceAll(strings.ToLower(name), " ", "-"))
			at := "/v1/" + kind + "/" + t.ID
			a := w.do(request{method: "POST", path: at + "/versions", body: archive.raw, header: map[string]string{"Content-Type": archive.contentType}, undocumented: true})
			if f := a.apiError(); a.StatusCode != 400 || f.Type != "invalid_request_error" || f.Message == "" {
				w.Errorf("%s returned %d %s", name, a.StatusCode, a.body)
			}
			w.checkNulls(w.object(at), []string{"currentVersionId", "currentVersion"}, nil)
			w.equal(name+": versions", 0, len(list[object](w, at+"/versions", nil)))
			w.wantError(request{method: "GET", path: at + "/download"}, 404, notFound)
			w.wantError(request{method: "GET", path: at + "/versions/1/files"}, 404, notFound)
		}
	}
}

func equalContent(w *tenant) {
	t := w.newTree("volumes", "data")
	at := "/v1/volumes/" + t.ID + "/versions"
	first := w.push("volumes", t.ID, pack(w, files(object{"a": "1", "b": "2"})...))
	var again stint.FileSetVersion
	same := pack(w, entry{Name: "b", Text: "2"}, entry{Name: "./a", Text: "1"})
	w.must(200, request{method: "POST", path: at + "?message=again", body: same}, &again)
	w.equal("the head", first, again)
	w.must(200, request{method: "POST", path: at, body: gzipped(w, same), header: map[string]string{"Content-Type": "application/gzip"}}, &again)
	w.equal("the head", first, again)
	w.equal("versions", 1, len(list[object](w, at, nil)))
	second := w.push("volumes", t.ID, pack(w, files(object{"a": "1"})...))
	third := w.push("volumes", t.ID, pack(w, files(object{"a": "1", "b": "2"})...)) // the content of an older version
	w.equal("versions", []string{third.ID, second.ID, first.ID}, ids(list[stint.FileSetVersion](w, at, nil)))
	w.must(201, request{method: "POST", path: at, body: pack(w, entry{Name: "a", Text: "1", Mode: 0o755}, entry{Name: "b", Text: "2"})}, nil)
}

func ids(versions []stint.FileSetVersion) (all []string) {
	for _, v := range versions {
		all = append(all, v.ID)
	}
	return all
}

func ifMatch(w *tenant) {
	t := w.newTree("volumes", "data")
	push := func(head string, text string) request {
		return request{method: "POST", path: "/v1/volumes/" + t.ID + "/versions", body: pack(w, entry{Name: "a", Text: text}), header: map[string]string{"If-Match": head}}
	}
	first := w.push("volumes", t.ID, pack(w, entry{Name: "a", Text: "1"}))
	var second, third stint.FileSetVersion
	w.must(201, push(first.ID, "2"), &second)
	w.wantError(push(first.ID, "3"), 409, badHead, second.ID)
	w.must(201, push(`"`+second.ID+`"`, "3"), &third)
	w.wantError(push("v9_aaaaaaaaaaaaaaaaaaaa", "4"), 409, badHead)
	w.equal("versions", []string{third.ID, second.ID, first.ID}, ids(list[stint.FileSetVersion](w, "/v1/volumes/"+t.ID+"/versions", nil)))
}

func filesOfVersion(w *tenant) {
	t := w.newTree("volumes", "data")
	v := w.push("volumes", t.ID, pack(w, oddEntries()...))
	at := "/v1/volumes/" + t.ID + "/versions/" + v.ID + "/files"
	all := list[stint.FileEntry](w, at, nil)
	byPath := map[string]stint.FileEntry{}
	for i, f := range all {
		byPath[f.Path] = f
		if i > 0 && all[i-1].Path >= f.Path {
			w.Errorf("%q comes behind %q", f.Path, all[i-1].Path)
		}
	}
	for _, e := range oddEntries() {
		f, there := byPath[e.Name]
		switch e.Type {
		case tar.TypeSymlink:
			w.equal("a link", []any{"symlink", e.Link}, []any{f.Kind, f.Target})
		case tar.TypeDir:
			w.equal("a folder", "dir", f.Kind)
		default:
			if !there || f.Kind != "file" || f.Size != int64(len(e.Text)) || f.SHA256 != sum(e.Text) {
				w.Errorf("%.40q is %+v", e.Name, f)
				continue
			}
			a := w.do(request{method: "GET", path: at + "/" + escapePath(e.Name)})
			if a.StatusCode != 200 || string(a.body) != e.Text {
				w.Errorf("%.40q returned %d, %d bytes", e.Name, a.StatusCode, len(a.body))
			}
		}
	}
	w.equal("mode", "0755", byPath["script"].Mode)
	file := request{method: "GET", path: at + "/plain"}
	for given, want := range map[string]string{"bytes=1-2": "la", "bytes=3-": "in", "bytes=-1": "n", "bytes=0-99": "plain"} {
		file.header = map[string]string{"Range": given}
		a := w.do(file)
		w.equal(given, []any{206, want}, []any{a.StatusCode, string(a.body)})
	}
	w.wantError(request{method: "GET", path: at + "/plain", header: map[string]string{"Range": "bytes=9-"}}, 416, "invalid_request_error range_not_satisfiable")
	a := w.do(request{method: "HEAD", path: at + "/plain"})
	w.equal("HEAD", []any{200, int64(5), 0}, []any{a.StatusCode, a.ContentLength, len(a.body)})
	for _, bad := range []string{"nothing", "plain/x", "%2e%2e/plain", "folder/%2e%2e/plain", "PLAIN", "plain%00", "%2Fetc%2Fpasswd"} {
		w.wantError(request{method: "GET", path: at + "/" + bad}, 404, notFound)
	}
	for _, odd := range []string{"folder", "folder/link"} { // a path that exists but is not a file
		w.wantError(request{method: "GET", path: at + "/" + odd}, 400, invalid, odd)
	}
}

func differences(w *tenant) {
	t := w.newTree("volumes", "data")
	at := "/v1/volumes/" + t.ID
	w.push("volumes", t.ID, pack(w, files(object{"gone": "1", "kept": "2", "changed": "3"})...))
	w.push("volumes", t.ID, pack(w, files(object{"new": "4", "kept": "2", "changed": "5"})...))
	got := map[string]string{}
	for _, c := range list[stint.FileChange](w, at+"/diff?from=1&to=2", nil) {
		got[c.Path] = c.Change
		if (c.From == nil) != (c.Change == "added") || (c.To == nil) != (c.Change == "removed") {
			w.Errorf("%+v", c)
		}
	}
	w.equal("changes", map[string]string{"gone": "removed", "new": "added", "changed": "changed"}, got)
	w.equal("to the head", 3, len(list[stint.FileChange](w, at+"/diff?from=v1", nil)))
	w.equal("no changes", 0, len(list[stint.FileChange](w, at+"/diff?from=2&to=latest", nil)))
	w.wantError(request{method: "GET", path: at + "/diff"}, 400, missing, "from")
	w.wantError(request{method: "GET", path: at + "/diff?from=1&to=7"}, 404, notFound, "7")
}

func specifiers(w *tenant) {
	for _, kind := range treeKinds {
		t := w.newTree(kind, "data")
		at := "/v1/" + kind + "/" + t.ID
		one := w.push(kind, t.ID, pack(w, entry{Name: "a", Text: "one"}))
		two := w.push(kind, t.ID, pack(w, entry{Name: "a", Text: "two"}))
		foreign := w.push(kind, w.newTree(kind, "other").ID, pack(w, entry{Name: "a", Text: "three"}))
		for asked, want := range map[string]stint.FileSetVersion{"latest": two, "v1": one, "1": one, one.ID: one, "v2": two, "2": two, two.ID: two} {
			var v stint.FileSetVersion
			w.get(at+"/versions/"+asked, &v)
			w.equal(asked, want, v)
			text := map[string]string{one.ID: "one", two.ID: "two"}[want.ID]
			w.equal(asked, text, unpack(w, w.download(at+"/download?versionId="+asked))["a"].Text)
			w.equal(asked, text, string(w.do(request{method: "GET", path: at + "/versions/" + asked + "/files/a"}).body))
		}
		for _, bad := range append(badVersions, foreign.ID, "3", "v3", "v3_"+one.ID[3:], w.shell.CurrentVersionID) {
			escaped := strings.NewReplacer("+", "%2B", " ", "%20").Replace(bad)
			for _, path := range []string{"/versions/" + escaped, "/download?versionId=" + escaped, "/versions/" + escaped + "/files", "/versions/" + escaped + "/files/a", "/diff?from=" + escaped, "/diff?from=1&to=" + escaped} {
				w.wantError(request{method: "GET", path: at + path}, 404, notFound, bad)
			}
		}
	}
}

func deletion(w *tenant) {
	v := w.volume("data", object{"a": "kept"})
	used := w.run(object{"volumes": object{"data": "latest"}, "artifactName": "out", "prompt": "cp /volumes/data/a ."})
	for kind, name := range map[string]string{"volumes": "data", "artifacts": "out"} {
		t := w.tree(kind, name)
		at := "/v1/" + kind + "/" + t.ID
		w.must(204, request{method: "DELETE", path: at}, nil)
		for _, r := range []request{{method: "DELETE", path: at}, {method: "GET", path: at}, {method: "GET", path: at + "/download"}, {method: "GET", path: at + "/versions"}} {
			w.wantError(r, 404, notFound, t.ID)
		}
		w.equal(kind, 0, len(list[object](w, "/v1/"+kind, nil)))
	}
	w.wantRunError(object{"volumes": object{"data": "latest"}}, 404, notFound, "data")
	out, r := w.runOutput(object{"checkpointId": *used.CheckpointID, "prompt": "cat /volumes/data/a a"}) // a version that a checkpoint uses is kept
	w.equal("resumed", "keptkept", out)
	w.equal("volumes", map[string]string{"data": v.ID}, r.Volumes)
	w.volume("data", object{"a": "new"}) // the name of a deleted volume can be used again
}
