package apitest

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/stint-dev/stint/internal/files/treewire"
)

func (w *walk) fillHeaders(s *draft, valid bool) {
	if s.method == "POST" && w.chance(40) {
		key := one(w.rng, "walk-key", fmt.Sprintf("walk-%d-%d", w.seed, w.number))
		if !valid && w.chance(40) {
			key = next(w, "key", "", strings.Repeat("k", 256), strings.Repeat("k", 20000), "k\tk", "💩")
			s.wrong(false, "odd Idempotency-Key")
		}
		s.header.Set("Idempotency-Key", key)
	}
	for _, p := range paramsOf(s.place) {
		if p.In == "header" && p.Name != "Idempotency-Key" && w.chance(40) {
			w.addHeader(s, p.Name, valid)
		}
	}
	if s.place.op.OperationID == "streamRunEvents" {
		s.header.Set("Accept", one(w.rng, "text/event-stream", "application/json"))
	}
	if !valid && w.chance(15) {
		s.header.Set("Accept", next(w, "accept", "image/png", "*/*", "text/html;q=0.9, */*;q=0.1", ";;;", strings.Repeat("a/b,", 2000)))
		s.wrong(false, "odd Accept")
	}
	if w.chance(20) {
		s.header.Set("X-Request-Id", one(w.rng, "req_"+strings.Repeat("0a", 16), "req_", strings.Repeat("r", 5000), "req_"+strings.Repeat("0A", 16)))
	}
}

// oddHeaders contains values of headers, by name of the header. The first value is
// valid. The other values are unusual or invalid.
var oddHeaders = map[string][]string{
	"Prefer":        {"wait=0", "wait=-1", "wait=abc", "wait=", "wait=1.5", "respond-async", "wait=0, wait=0", "=", "wait=99999999999999999999x"},
	"Last-Event-ID": {"1", "0", "-1", "99999999999999999999", "1.0", "x", "1 ", "💩", strings.Repeat("9", 5000)},
	"If-Match":      {"latest", "*", `""`, `W/"v1"`, "v0", `"unclosed`, "💩", strings.Repeat("v", 5000)},
	"If-None-Match": {`"x"`, "*", `W/"x"`, `"unclosed`, ",,,", strings.Repeat(`"a",`, 1000)},
	"Range":         {"bytes=0-0", "bytes=5-", "bytes=-5", "bytes=99999999-", "bytes=a-b", "lines=1-2", "bytes=0-1,3-4", "bytes=5-2", "bytes=", "bytes=99999999999999999999-", "bytes=" + strings.Repeat("0-0,", 2000) + "0-0"},
}

func (w *walk) addHeader(s *draft, name string, valid bool) {
	values := oddHeaders[name]
	if len(values) == 0 {
		return
	}
	if valid {
		s.header.Set(name, values[0])
		return
	}
	value := next(w, name, values...)
	s.header.Set(name, value)
	s.wrong(false, "%s: %.40s", name, value)
}

func (w *walk) fillBody(s *draft, valid bool) {
	promise := s.place.op.RequestBody
	switch {
	case promise == nil && !valid && s.method != "GET" && s.method != "HEAD" && w.chance(15):
		s.body = []byte(one(w.rng, "{}", "not asked for", "\x00"))
		s.wrong(false, "a body where none is taken")
	case promise == nil:
	case promise.Value.Content["application/json"] != nil:
		w.fillJSON(s, valid)
	case promise.Value.Content["application/gzip"] == nil:
		w.fillChunks(s, valid)
	default:
		w.fillArchive(s, valid)
	}
}

func (w *walk) fillJSON(s *draft, valid bool) {
	s.header.Set("Content-Type", one(w.rng, "application/json", "application/json; charset=utf-8"))
	object := w.validBody(s)
	if valid {
		s.body = mustJSON(object)
		return
	}
	if w.chance(15) {
		s.body = mustJSON(object)
		s.header.Set("Content-Type", next(w, "type", "text/plain", "application/xml", "application/x-www-form-urlencoded", "multipart/form-data", "application/gzip", "💩"))
		s.wrong(true, "wrong Content-Type")
		return
	}
	if w.chance(50) {
		w.breakSyntax(s, object)
		return
	}
	w.breakMembers(s, object)
}

// validBody returns a valid JSON body for the operation. The body is an example in the
// API document, except that a run uses a known agent and a new resource has a unique
// name.
func (w *walk) validBody(s *draft) map[string]any {
	examples := s.place.op.RequestBody.Value.Content["application/json"].Examples
	name := one(w.rng, slices.Sorted(maps.Keys(examples))...)
	var object map[string]any
	if err := json.Unmarshal(mustJSON(examples[name].Value.Value), &object); err != nil {
		w.t.Fatalf("walk: example %s of %s: %v", name, s.place.op.OperationID, err)
	}
	switch s.place.op.OperationID {
	case "createRun":
		object = map[string]any{"prompt": "true", "agent": "unknown"}
		if len(w.pool.agents) > 0 {
			object["agent"] = one(w.rng, w.pool.agents...)
		}
	case "createAgent", "createArtifact", "createVolume":
		object["name"] = fmt.Sprintf("walk-%d-%d", w.seed, w.number)
	}
	return object
}

// breakSyntax sets the body to a text that is not a valid JSON object, or to unusual
// JSON.
func (w *walk) breakSyntax(s *draft, object map[string]any) {
	raw := string(mustJSON(object))
	kinds := []struct {
		name      string
		body      string
		certainly bool
	}{
		{"empty body", "", true},
		{"null", "null", true},
		{"a list", "[" + raw + "]", true},
		{"a number", "1", true},
		{"a string", `"` + strings.Repeat("a", 100) + `"`, true},
		{"cut short", raw[:len(raw)/2], true},
		{"trailing brace", raw + "}", true},
		{"two values", raw + raw, true},
		{"twice the same name", `{"name":"a","prompt":"a","value":"a",` + raw[1:], false},
		{"deep list", strings.Repeat("[", 20000), true},
		{"deep object", strings.Repeat(`{"a":`, 20000) + "1" + strings.Repeat("}", 20000), true},
		{"deep member", `{"metadata":` + strings.Repeat("[", 9000) + strings.Repeat("]", 9000) + "," + raw[1:], false},
		{"NaN", `{"priority":NaN,` + raw[1:], true},
		{"byte order mark", "\ufeff" + raw, false},
		{"bad UTF-8", `{"prompt":"` + "\xff\xfe" + `","name":"` + "\xff" + `"}`, false},
		{"NUL", "\x00", true},
		{"comment", "// hello\n" + raw, true},
		{"single quotes", strings.ReplaceAll(raw, `"`, "'"), len(object) > 0},
		{"huge", `{"prompt":"` + strings.Repeat("a", 8<<20) + `",` + raw[1:], false},
	}
	k := next(w, "syntax", kinds...)
	s.body, s.large = []byte(k.body), len(k.body) > 128<<10
	s.wrong(k.certainly, "body: %s", k.name)
}

// breakMembers changes, adds, or removes a member of the body.
func (w *walk) breakMembers(s *draft, object map[string]any) {
	names := slices.Sorted(maps.Keys(object))
	name := one(w.rng, names...)
	if w.chance(30) {
		name = one(w.rng, "metadata", "variables", "secrets", "volumes", "timeout", "priority", "limits", "scopes", "expiresInDays",
			"framework", "command", "network", "resources", "artifactName", "sessionId", "checkpointId", "agentVersion", "unknown", "__proto__", "")
	}
	if w.chance(15) {
		delete(object, name)
		s.wrong(false, "body without %s", name)
	} else {
		v := w.oddValue()
		object[name] = v
		s.wrong(false, "body with %s=%.40s", name, mustJSON(v))
	}
	s.body = mustJSON(object)
}

func (w *walk) oddValue() any {
	many := map[string]string{}
	for i := range 1000 {
		many[fmt.Sprintf("k%d", i)] = "v"
	}
	return next[any](w, "value",
		nil, true, 0, -1, 1e308, json.Number("123456789012345678901234567890"), 1.5, "", " ", "\x00", "a\r\nb", "💩", "\u202etxt", "${{ secrets.X }}", "${{",
		"../../etc/passwd", strings.Repeat("a", 70000), "' OR 1=1 --", "latest", "-1s", "9999999h", []any{}, []any{nil}, []any{map[string]any{}}, map[string]any{},
		map[string]any{"a": nil}, map[string]any{"": ""}, map[string]any{"LD_PRELOAD": "x"}, map[string]any{"STINT_X": "x"}, map[string]any{"a b": "x"}, many,
		map[string]any{"outputBytes": -1}, map[string]any{"outputBytes": "1e300GiB"},
	)
}

func (w *walk) fillArchive(s *draft, valid bool) {
	types := map[string][]byte{"application/gzip": zipped(archive("hello.txt")), "application/x-tar": archive("a/b.txt")}
	s.header.Set("Content-Type", one(w.rng, slices.Sorted(maps.Keys(types))...))
	s.body = types[s.header.Get("Content-Type")]
	if valid {
		return
	}
	good := zipped(archive("x"))
	kinds := []struct {
		name, contentType string
		body              []byte
		certainly         bool
	}{
		{"empty archive", "application/x-tar", archive(), false},
		{"path outside", "application/x-tar", archive("../x"), true},
		{"absolute path", "application/gzip", zipped(archive("/etc/x")), true},
		{"file under a file", "application/x-tar", archive("a", "a/b"), true},
		{"no archive", "application/gzip", []byte("no archive"), true},
		{"no tar in it", "application/gzip", zipped([]byte(strings.Repeat("no tar", 200))), true},
		{"cut short", "application/gzip", good[:len(good)/2], true},
		{"not zstd", "application/zstd", good, true},
		{"not gzip", "application/gzip", archive("x"), true},
		{"wrong Content-Type", "application/zip", good, true},
		{"JSON", "application/json", []byte("{}"), true},
		{"no Content-Type", "", good, true},
		{"nothing", "application/gzip", nil, true},
		{"odd name", "application/x-tar", archive(strings.Repeat("n", 250) + "/💩 \n"), false},
	}
	k := next(w, "archive", kinds...)
	s.body = k.body
	s.header.Set("Content-Type", k.contentType)
	if k.contentType == "" {
		s.header.Del("Content-Type")
	}
	s.wrong(k.certainly, "archive: %s", k.name)
}

// fillChunks sets the body of an operation for the transfer of chunks: a list of hashes,
// a selection of chunks, or frames that contain chunks.
func (w *walk) fillChunks(s *draft, valid bool) {
	kind, good := treewire.HashesType, make([]byte, 64)
	switch {
	case s.place.op.RequestBody.Value.Content[treewire.FramesType] != nil:
		kind, good = treewire.FramesType, treewire.AppendFramesEnd(treewire.AppendFramesHead(nil))
	case strings.HasSuffix(s.place.route.path, "{v}/chunks"):
		good = (&treewire.Selection{Ranges: []treewire.Range{{First: 0, Count: 1}}}).Append(nil)
	}
	s.header.Set("Content-Type", kind)
	s.body = good
	if valid {
		return
	}
	kinds := []struct {
		name, contentType string
		body              []byte
		certainly         bool
	}{
		{"cut short", kind, good[:len(good)-1], true},
		{"something else", kind, []byte("hello"), true},
		{"nothing", kind, []byte{}, kind != treewire.HashesType},
		{"wrong Content-Type", "application/json", []byte("{}"), true},
		{"no Content-Type", "", good, true},
		{"far numbers", kind, bytes.Repeat([]byte{0xff}, 31), true},
		{"huge", kind, make([]byte, 2<<20+1), true},
	}
	k := next(w, "chunks", kinds...)
	s.body, s.large = k.body, len(k.body) > 128<<10
	s.header.Set("Content-Type", k.contentType)
	if k.contentType == "" {
		s.header.Del("Content-Type")
	}
	s.wrong(k.certainly, "chunks: %s", k.name)
}

// archive returns a tar archive with a file for each name. It ignores errors, because
// writes to memory cannot fail.
func archive(names ...string) []byte {
	var out bytes.Buffer
	t := tar.NewWriter(&out)
	for _, name := range names {
		_ = t.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: 5, Typeflag: tar.TypeReg, Format: tar.FormatPAX})
		_, _ = t.Write([]byte("hello"))
	}
	_ = t.Close()
	return out.Bytes()
}

func zipped(raw []byte) []byte {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	_, _ = z.Write(raw)
	_ = z.Close()
	return out.Bytes()
}

// mustJSON returns v as JSON. The values that this package encodes cannot cause an
// error.
func mustJSON(v any) []byte {
	raw, err := json.Marshal(v)
	if err != nil {
		panic("apitest: " + err.Error())
	}
	return raw
}
