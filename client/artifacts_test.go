package client_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/client"
)

func TestPush(t *testing.T) {
	t.Parallel()
	status := 201
	c := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if string(body) != "bytes" || r.URL.RequestURI() != "/v1/volumes/vol_1/versions?message=a+b" ||
			r.Header.Get("Content-Type") != "application/x-tar" || r.Header.Get("If-Match") != `"v1_x"` {
			t.Errorf("request %s %v %q", r.URL, r.Header, body)
		}
		writeJSON(w, status, `{"id":"v2_y","volumeId":"vol_1"}`)
	}))
	o := &client.PushOptions{Message: "a b", ContentType: "application/x-tar", IfMatch: "v1_x"}
	v, added, err := c.Volumes.Push(t.Context(), "vol_1", strings.NewReader("bytes"), o)
	if err != nil || !added || v.ID != "v2_y" {
		t.Errorf("got %+v, %v, %v", v, added, err)
	}
	status = 200
	if _, added, err = c.Volumes.Push(t.Context(), "vol_1", strings.NewReader("bytes"), o); err != nil || added {
		t.Errorf("unchanged content: added %v, error %v", added, err)
	}
}

func TestPushReturnsTheReadersError(t *testing.T) {
	t.Parallel()
	c := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.WriteHeader(400)
	}))
	broken := errors.New("disk failure")
	if _, _, err := c.Volumes.Push(t.Context(), "vol_1", iotest.ErrReader(broken), nil); !errors.Is(err, broken) {
		t.Errorf("error is %v, want %v", err, broken)
	}
}

// archiveServer serves an archive. The response to the nth request breaks after
// cuts[n-1] bytes. Responses to further requests are complete.
type archiveServer struct {
	t       *testing.T
	archive []byte
	cuts    []int
	ranges  []string
	digest  string // value of the Repr-Digest header; empty means no header
	moves   bool   // whether each response has a new ETag
}

func (v *archiveServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if a := r.Header.Get("Authorization"); a != "" {
		v.t.Errorf("the token was sent to the archive's URL: %q", a)
	}
	v.ranges = append(v.ranges, r.Header.Get("Range"))
	w.Header().Set("ETag", `"abc"`)
	if v.moves {
		w.Header().Set("ETag", fmt.Sprintf(`"%d"`, len(v.ranges)))
	}
	if v.digest != "" {
		w.Header().Set("Repr-Digest", v.digest)
	}
	if n := len(v.ranges); n <= len(v.cuts) {
		w = &cutter{ResponseWriter: w, left: v.cuts[n-1]}
	}
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(v.archive))
}

type cutter struct {
	http.ResponseWriter
	left int
}

func (c *cutter) Write(p []byte) (int, error) {
	if len(p) > c.left {
		c.ResponseWriter.Write(p[:c.left])
		c.ResponseWriter.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}
	c.left -= len(p)
	return c.ResponseWriter.Write(p)
}

func download(t *testing.T, v *archiveServer, w io.Writer) (int64, error) {
	t.Helper()
	v.t = t
	store := httptest.NewServer(v)
	t.Cleanup(store.Close)
	c := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.RequestURI() != "/v1/artifacts/art_1/download?versionId=v3" || r.Header.Get("Authorization") == "" {
			t.Errorf("request %s %v", r.URL, r.Header)
		}
		w.Header().Set("Location", store.URL+"/there?sig=1")
		w.WriteHeader(302)
	}))
	return c.Artifacts.Download(t.Context(), "art_1", "v3", w)
}

func TestDownloadResumes(t *testing.T) {
	t.Parallel()
	v := &archiveServer{archive: bytes.Repeat([]byte("0123456789"), 10_000), cuts: []int{30_000, 0, 20_000}}
	var got bytes.Buffer
	n, err := download(t, v, &got)
	if err != nil {
		t.Fatal(err)
	}
	if n != int64(len(v.archive)) || !bytes.Equal(got.Bytes(), v.archive) {
		t.Errorf("got %d bytes, want %d equal ones", n, len(v.archive))
	}
	if v.ranges[0] != "" || v.ranges[len(v.ranges)-1] != "bytes=50000-" {
		t.Errorf("ranges %q", v.ranges)
	}
}

// TestDownloadResumesWithAnotherETag checks that a download can be resumed if the ETag
// of the archive has changed and the content has not.
func TestDownloadResumesWithAnotherETag(t *testing.T) {
	t.Parallel()
	archive := bytes.Repeat([]byte("0123456789"), 10_000)
	sum := sha256.Sum256(archive)
	digest := "sha-256=:" + base64.StdEncoding.EncodeToString(sum[:]) + ":"
	v := &archiveServer{archive: archive, cuts: []int{30_000, 10, 50_000}, moves: true, digest: "sha-512=:x:, " + digest}
	var got bytes.Buffer
	if n, err := download(t, v, &got); err != nil || n != int64(len(archive)) || !bytes.Equal(got.Bytes(), archive) {
		t.Errorf("got %d bytes, %v", n, err)
	}
}

func TestDownloadVerifiesTheDigest(t *testing.T) {
	t.Parallel()
	sum := sha256.Sum256([]byte("this"))
	v := &archiveServer{archive: []byte("that"), digest: "sha-256=:" + base64.StdEncoding.EncodeToString(sum[:]) + ":"}
	if _, err := download(t, v, io.Discard); err == nil || !strings.Contains(err.Error(), "SHA-256") {
		t.Errorf("error is %v", err)
	}
}

func TestDownloadGivesUp(t *testing.T) {
	t.Parallel()
	v := &archiveServer{archive: make([]byte, 1000), cuts: []int{0, 0, 0, 0, 0, 0, 0, 0}}
	if _, err := download(t, v, io.Discard); err == nil || len(v.ranges) != 4 {
		t.Errorf("error is %v after %d attempts, want one after 4", err, len(v.ranges))
	}
}

type full struct{}

var errFull = errors.New("disk full")

func (full) Write([]byte) (int, error) { return 0, errFull }

func TestDownloadReturnsTheWritersError(t *testing.T) {
	t.Parallel()
	v := &archiveServer{archive: make([]byte, 1000)}
	if _, err := download(t, v, full{}); !errors.Is(err, errFull) || len(v.ranges) != 1 {
		t.Errorf("error is %v after %d attempts", err, len(v.ranges))
	}
}

func TestDownloadWithoutVersion(t *testing.T) {
	t.Parallel()
	c := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, 404, `{"error":{"code":"resource_not_found","message":"It has no version."}}`)
	}))
	if _, err := c.Volumes.Download(t.Context(), "vol_1", "", io.Discard); !client.IsCode(err, stint.CodeResourceNotFound) {
		t.Errorf("error is %v", err)
	}
}

// TestDownloadIsOfOneVersion checks that a resumed download continues with the version
// that it began with, even if the current version has changed.
func TestDownloadIsOfOneVersion(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"", "latest"} {
		contents := map[string][]byte{"v1_a": bytes.Repeat([]byte("1"), 10_000), "v2_b": bytes.Repeat([]byte("2"), 10_000)}
		head, asked := "v1_a", 0
		store := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if asked++; asked == 1 {
				head = "v2_b"
				w = &cutter{ResponseWriter: w, left: 4000}
			}
			w.Header().Set("ETag", `"`+r.URL.Path+`"`)
			http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(contents[r.URL.Path[1:]]))
		}))
		t.Cleanup(store.Close)
		c := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/v1/artifacts/art_1" {
				writeJSON(w, 200, `{"id":"art_1","name":"a","currentVersionId":"`+head+`"}`)
				return
			}
			of := r.URL.Query().Get("versionId")
			if of == "" || of == "latest" {
				of = head
			}
			w.Header().Set("Location", store.URL+"/"+of)
			w.WriteHeader(302)
		}))
		var got bytes.Buffer
		if _, err := c.Artifacts.Download(t.Context(), "art_1", version, &got); err != nil || !bytes.Equal(got.Bytes(), contents["v1_a"]) {
			t.Errorf("version %q: got %q…%q, %v", version, got.Bytes()[:3], got.Bytes()[got.Len()-3:], err)
		}
	}
}

func TestReadFilePartBeyondEnd(t *testing.T) {
	t.Parallel()
	c := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "whole") }))
	if part, size, err := c.Volumes.ReadFilePart(t.Context(), "vol_1", "v1_x", "a", 3, 9); err != nil || string(part) != "le" || size != 5 {
		t.Errorf("got %q, %d, %v", part, size, err)
	}
	if _, _, err := c.Volumes.ReadFilePart(t.Context(), "vol_1", "v1_x", "a", 9, 9); !client.IsCode(err, stint.CodeRangeNotSatisfiable) {
		t.Errorf("error is %v, want the code %s", err, stint.CodeRangeNotSatisfiable)
	}
}
