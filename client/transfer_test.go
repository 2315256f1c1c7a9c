package client_test

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/client"
)

func TestChunkCalls(t *testing.T) {
	t.Parallel()
	var seen []string
	broken := 0
	c := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		call := r.Method + " " + r.URL.RequestURI() + " " + r.Header.Get("Content-Type") + " " + string(body)
		if broken < 2 && r.Method == http.MethodPost && !strings.HasSuffix(r.URL.Path, "/chunks") {
			broken++
			w.Header().Set("Content-Length", "100")
			io.WriteString(w, "half") // the connection closes before the other bytes are sent
			return
		}
		seen = append(seen, call)
		switch {
		case strings.HasSuffix(r.URL.Path, "/versions"):
			writeJSON(w, 201, `{"id":"v1_x","volumeId":"vol_1"}`)
		case r.URL.Path == "/v1/chunks":
			writeJSON(w, 200, `{"received":1,"stored":1}`)
		default:
			io.WriteString(w, "answer")
		}
	}))
	missing, err := c.MissingChunks(t.Context(), []byte("a question"))
	if err != nil || string(missing) != "answer" {
		t.Errorf("missing %q, %v", missing, err)
	}
	if err := c.SendChunks(t.Context(), []byte("frames")); err != nil {
		t.Error(err)
	}
	v, added, err := c.Volumes.PushTree(t.Context(), "vol_1", bytes.NewReader([]byte("a tree")), 6, &client.PushOptions{Message: "m"})
	if err != nil || !added || v.ID != "v1_x" {
		t.Errorf("pushed %+v, %v, %v", v, added, err)
	}
	tree, err := c.Volumes.OpenTree(t.Context(), "vol_1", "")
	if err != nil {
		t.Fatal(err)
	}
	tree.Close()
	chunks, err := c.Artifacts.OpenChunks(t.Context(), "art_1", "3", []byte("these"))
	if err != nil {
		t.Fatal(err)
	}
	chunks.Close()
	want := []string{
		"POST /v1/chunks/missing application/octet-stream a question",
		"POST /v1/chunks application/vnd.stint.chunks frames",
		"POST /v1/volumes/vol_1/versions?message=m application/vnd.stint.tree+zstd a tree",
		"GET /v1/volumes/vol_1/versions/latest/tree  ",
		"POST /v1/artifacts/art_1/versions/3/chunks application/octet-stream these",
	}
	if got := strings.Join(seen, "\n"); got != strings.Join(want, "\n") {
		t.Errorf("calls:\n%s", got)
	}
}

func TestPushTreeReportsMissingChunks(t *testing.T) {
	t.Parallel()
	c := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		writeJSON(w, 409, `{"error":{"type":"conflict_error","code":"chunks_missing","message":"The server lacks 1."}}`)
	}))
	_, _, err := c.Volumes.PushTree(t.Context(), "vol_1", bytes.NewReader(nil), 0, nil)
	if !client.IsCode(err, stint.CodeChunksMissing) {
		t.Errorf("error %v", err)
	}
}
