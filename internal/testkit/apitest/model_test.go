package apitest_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"path"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/klauspost/compress/zstd"

	"github.com/stint-dev/stint/internal/files/treewire"
	"github.com/stint-dev/stint/internal/testkit/apitest"
)

const token = "stint_live_00000000000000000000000000000000000000000000000000000000000000aa"

// knownIDs are the IDs in the examples of the API document.
var knownIDs = []string{
	"run_01jz8w1k2m4n6p8q0r2s4t6v8w", "ag_01jz8w0c5n3r6t9v2x4z7b1d5f", "agv_01jz8w0c5n3r6t9v2x4z7b1d5g", "art_01jz8w5d7f9h1k3m5p7r9t1v3x",
	"vol_01jz8w5d7f9h1k3m5p7r9t1v3x", "sess_01jz8w1m4p7r0t3v6x9z2b5d8g", "chk_01jz8w3t5v7x9z1b3d5f7h9k1m", "tok_01jz8v0000000000000000000c",
}

// model is a server that conforms to the API document. It refuses invalid requests and
// responds to valid requests with an example of the operation's response.
type model struct{}

func (m model) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id := r.Header.Get("X-Request-Id")
	if len(id) != 36 || strings.Trim(id[4:], "0123456789abcdef") != "" || !strings.HasPrefix(id, "req_") {
		id = "req_" + strings.Repeat("5", 32)
	}
	w.Header().Set("X-Request-Id", id)
	w.Header().Set("X-API-Version", "v1")
	op, values, parameters, known := apitest.Find(r)
	if op == nil {
		if known {
			w.Header().Set("Allow", "GET, POST")
			refuse(w, 405, "invalid_request_error", "method_not_allowed")
			return
		}
		refuse(w, 404, "not_found_error", "resource_not_found")
		return
	}
	if status, kind, code := m.checkRequest(r, op, values, parameters); status != 0 {
		if status == 401 {
			w.Header().Set("WWW-Authenticate", "Bearer")
		}
		refuse(w, status, kind, code)
		return
	}
	m.answer(w, r, op)
}

func refuse(w http.ResponseWriter, status int, kind, code string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = fmt.Fprintf(w, `{"error":{"type":%q,"code":%q,"message":"No."}}`, kind, code)
}

func (m model) checkRequest(r *http.Request, op *openapi3.Operation, values map[string]string, parameters []*openapi3.Parameter) (int, string, string) {
	if !apitest.Open(op) && r.Header.Get("Authorization") != "Bearer "+token && r.URL.Query().Get("access_token") == "" {
		return 401, "authentication_error", "invalid_api_key"
	}
	for name, v := range values {
		if !exists(name, v, r.URL.Path) {
			return 404, "not_found_error", "resource_not_found"
		}
	}
	input := &openapi3filter.RequestValidationInput{Request: r, PathParams: values, Options: &openapi3filter.Options{SkipSettingDefaults: true}}
	for _, p := range parameters {
		if err := openapi3filter.ValidateParameter(r.Context(), input, p); err != nil && p.In == "query" {
			return 400, "invalid_request_error", "invalid_parameter"
		}
	}
	q := r.URL.Query()
	if c := q.Get("cursor"); c != "" && c != "q8Jm0sYfZ0k3cW5hPjQyTg" {
		return 400, "invalid_request_error", "invalid_parameter"
	}
	for _, name := range []string{"from", "to", "versionId"} {
		if v := q.Get(name); v != "" && !slices.Contains([]string{"latest", "v1", "1"}, v) {
			return 404, "not_found_error", "resource_not_found"
		}
	}
	for _, after := range []string{q.Get("lastEventId"), strings.TrimSpace(r.Header.Get("Last-Event-ID"))} {
		if after != "" && !slices.Contains([]string{"1", "2", "3", "4", "5"}, after) {
			return 400, "invalid_request_error", "invalid_parameter"
		}
	}
	if op.RequestBody != nil {
		return m.checkRequestBody(r, op.RequestBody.Value)
	}
	return 0, "", ""
}

func exists(name, v, path string) bool {
	switch {
	case name == "id" && strings.Contains(path, "/"+v):
		collection := strings.Split(path, "/")[2]
		for prefix, c := range map[string]string{"run_": "runs", "ag_": "agents", "art_": "artifacts", "vol_": "volumes", "sess_": "sessions", "chk_": "checkpoints", "tok_": "tokens"} {
			if c == collection && strings.HasPrefix(v, prefix) {
				return slices.Contains(knownIDs, v)
			}
		}
		return false
	case name == "v":
		return v == "latest" || v == "1" || v == "v1" || v == "v4_k7m2q9x4c1v8b5n3r6t0" || v == "v2_a1b2c3d4e5f6g7h8j9k0" || strings.HasPrefix(v, "agv_01jz")
	case name == "link":
		return v == "good"
	case name == "path":
		return slices.Contains([]string{"bin", "bin/run.sh", "run", "notes.txt", "old", "hello.txt", "a/b.txt"}, v)
	}
	return name == "name"
}

func (m model) checkRequestBody(r *http.Request, promise *openapi3.RequestBody) (int, string, string) {
	media := promise.Content.Get(r.Header.Get("Content-Type"))
	if media == nil || r.Header.Get("Content-Type") == "" {
		return 415, "invalid_request_error", "unsupported_media_type"
	}
	const limit = 1 << 20
	raw, err := io.ReadAll(io.LimitReader(r.Body, limit+1))
	if err == nil && len(raw) > limit {
		return 413, "invalid_request_error", "request_too_large"
	}
	if promise.Content["application/json"] == nil && promise.Content["application/gzip"] == nil {
		err = errors.Join(err, readChunks(r, raw))
	} else if promise.Content["application/json"] == nil {
		err = errors.Join(err, readArchive(r.Header.Get("Content-Type"), raw))
	} else if err == nil {
		var v any
		if v, err = apitest.Decode(raw); err == nil {
			err = media.Schema.Value.VisitJSON(v)
		}
	}
	if err != nil {
		return 400, "invalid_request_error", "invalid_parameter"
	}
	return 0, "", ""
}

func readChunks(r *http.Request, raw []byte) error {
	in := bytes.NewReader(raw)
	var err error
	switch {
	case r.Header.Get("Content-Type") == treewire.FramesType:
		if _, err = treewire.NewFrameReader(in).Next(); errors.Is(err, io.EOF) {
			err = nil
		}
	case strings.HasSuffix(r.URL.Path, "/missing"):
		_, err = treewire.ReadHashes(in)
	default:
		_, err = treewire.ReadSelection(in)
	}
	return err
}

func readArchive(kind string, raw []byte) error {
	var from io.Reader = bytes.NewReader(raw)
	switch kind {
	case "application/gzip":
		z, err := gzip.NewReader(from)
		if err != nil {
			return err
		}
		from = z
	case "application/zstd":
		z, err := zstd.NewReader(from)
		if err != nil {
			return err
		}
		defer z.Close()
		from = z
	}
	seen := map[string]bool{}
	for t := tar.NewReader(from); ; {
		h, err := t.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if path.IsAbs(h.Name) || strings.HasPrefix(h.Name, "..") || seen[path.Dir(h.Name)] {
			return errors.New("path")
		}
		seen[h.Name] = true
	}
}

// answer responds with the lowest status that the document lists for the operation and
// with the example for this status.
func (m model) answer(w http.ResponseWriter, r *http.Request, op *openapi3.Operation) {
	status := 600
	for code := range op.Responses.Map() {
		var n int
		_, _ = fmt.Sscan(code, &n)
		status = min(status, n)
	}
	promise := op.Responses.Status(status).Value
	for name := range promise.Headers {
		if v, ok := map[string]string{
			"ETag": `"e"`, "Content-Disposition": `attachment; filename="a.tar.gz"`, "Content-Length": "4",
			"Location": "/v1/downloads/good",
		}[name]; ok {
			w.Header().Set(name, v)
		}
	}
	kinds := slices.Sorted(maps.Keys(promise.Content))
	if len(kinds) == 0 {
		w.WriteHeader(status)
		return
	}
	kind := kinds[0]
	if r.Header.Get("Accept") == "text/event-stream" {
		kind = "text/event-stream"
	}
	w.Header().Set("Content-Type", kind)
	w.WriteHeader(status)
	_, _ = w.Write(exampleOf(r, kind, promise.Content[kind]))
}

func exampleOf(r *http.Request, kind string, media *openapi3.MediaType) []byte {
	if len(media.Examples) == 0 {
		return []byte("data")
	}
	value := media.Examples[slices.Sorted(maps.Keys(media.Examples))[0]].Value.Value
	if text, ok := value.(string); ok && kind == "text/event-stream" {
		after := r.Header.Get("Last-Event-ID") + r.URL.Query().Get("lastEventId")
		if after != "" {
			return nil
		}
		return []byte(text)
	}
	raw, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return raw
}
