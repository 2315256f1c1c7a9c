package api_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/client"
	"github.com/stint-dev/stint/client/transfer"
	"github.com/stint-dev/stint/internal/files"
	"github.com/stint-dev/stint/internal/files/treewire"
	"github.com/stint-dev/stint/internal/testkit/apitest"
)

// connect returns a client of the API. Its requests and responses are checked against
// the contract.
func (w *world) connect(url, token string) *client.Client {
	w.Helper()
	c, err := client.New(client.Options{URL: url, Token: token, HTTP: apitest.Client(w.TB), Backoff: time.Millisecond, Attempts: 50})
	if err != nil {
		w.Fatal(err)
	}
	return c
}

func (w *world) volume(c *client.Client, name string) transfer.ClientRemote {
	w.Helper()
	made, err := c.Volumes.Create(w.Context(), name)
	if err != nil {
		w.Fatal(err)
	}
	return transfer.ClientRemote{Client: c, Trees: c.Volumes, ID: made.ID}
}

// newFolder returns a folder with small and large files.
func newFolder(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	large := make([]byte, 6<<20)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(large)
	for name, b := range map[string][]byte{"large": large, "a/small": []byte("small"), "a/empty": nil, "a/text": bytes.Repeat([]byte("text "), 9000)} {
		full := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(full), 0o755), os.WriteFile(full, b, 0o640)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("small", filepath.Join(dir, "a", "link")); err != nil {
		t.Fatal(err)
	}
	return dir
}

func sums(t testing.TB, dir string) map[string]string {
	t.Helper()
	got := map[string]string{}
	err := filepath.Walk(dir, func(full string, info os.FileInfo, err error) error {
		if err != nil || full == dir {
			return err
		}
		name, _ := filepath.Rel(dir, full)
		got[name] = fmt.Sprint(info.Mode(), info.ModTime().UnixNano())
		if info.Mode().IsRegular() {
			b, err := os.ReadFile(full)
			got[name] += fmt.Sprintf(" %x", sha256.Sum256(b))
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestTransfer(t *testing.T) {
	w := newWorld(t)
	tree := w.volume(w.connect(w.url, w.token), "data")
	from, to := newFolder(t), t.TempDir()
	first, err := transfer.Push(t.Context(), tree, from, transfer.PushOptions{})
	if err != nil || !first.Added || first.Version.VolumeID != tree.ID || first.Version.FileCount != 4 {
		t.Fatalf("push returned %+v, %v", first, err)
	}
	again, err := transfer.Push(t.Context(), tree, from, transfer.PushOptions{})
	if err != nil || again.Added || again.Version.ID != first.Version.ID || again.Sent.Files != 0 {
		t.Errorf("a second push returned %+v, %v", again, err)
	}
	if _, err := transfer.Pull(t.Context(), tree, to, transfer.PullOptions{}); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(sums(t, from), sums(t, to)); d != "" {
		t.Error(d)
	}
	tree.Push = &client.PushOptions{IfMatch: "v9_aaaaaaaaaaaaaaaaaaaa"}
	if err := os.WriteFile(filepath.Join(from, "new"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := transfer.Push(t.Context(), tree, from, transfer.PushOptions{}); !client.IsCode(err, stint.CodeVersionConflict) {
		t.Errorf("a push to another head returned %v", err)
	}
	tree.Push = &client.PushOptions{IfMatch: first.Version.ID, Message: "second"}
	second, err := transfer.Push(t.Context(), tree, from, transfer.PushOptions{})
	if err != nil || second.Version.Message != "second" {
		t.Errorf("a push to the head returned %+v, %v", second, err)
	}
}

func TestTransferWithBrokenConnections(t *testing.T) {
	w := newWorld(t)
	rng := rand.New(rand.NewPCG(5, 5))
	var mu sync.Mutex
	directions := 0
	limit := func() int64 { // number of bytes after which one direction of a connection ends
		mu.Lock()
		defer mu.Unlock()
		if directions++; directions%3 == 0 {
			return 64 << 20
		}
		return rng.Int64N(3 << 20)
	}
	proxied := "http://" + breakingProxy(t, strings.TrimPrefix(w.url, "http://"), limit)
	direct := w.volume(w.connect(w.url, w.token), "data")
	c, err := client.New(client.Options{URL: proxied, Token: w.token, Backoff: time.Millisecond, Attempts: 50, HTTP: &http.Client{Transport: &http.Transport{}}})
	if err != nil {
		t.Fatal(err)
	}
	tree := transfer.ClientRemote{Client: c, Trees: c.Volumes, ID: direct.ID}
	from, to := newFolder(t), t.TempDir()
	if _, err := transfer.Push(t.Context(), tree, from, transfer.PushOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := transfer.Pull(t.Context(), tree, to, transfer.PullOptions{Backoff: time.Millisecond}); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(sums(t, from), sums(t, to)); d != "" {
		t.Error(d)
	}
	mu.Lock() // the transport may still open a connection
	defer mu.Unlock()
	if directions < 6 {
		t.Errorf("only %d directions were opened: no connection broke", directions)
	}
}

// breakingProxy starts a proxy to the address to, and returns the address of the
// proxy. It calls limit for each direction of a connection, and closes the connection
// after the returned number of bytes in that direction.
func breakingProxy(t *testing.T, to string, limit func() int64) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	t.Cleanup(func() {
		l.Close()
		wg.Wait()
	})
	wg.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", to)
			if err != nil {
				in.Close()
				continue
			}
			var once sync.Once
			stop := func() { once.Do(func() { in.Close(); out.Close() }) }
			for _, pair := range [][2]net.Conn{{in, out}, {out, in}} {
				n := limit()
				wg.Go(func() {
					defer stop()
					_, _ = io.CopyN(pair[0], pair[1], n)
				})
			}
			context.AfterFunc(t.Context(), stop) // t.Context is cancelled before the cleanup
		}
	})
	return l.Addr().String()
}

func TestConcurrentPushes(t *testing.T) {
	w := newWorld(t)
	tree := w.volume(w.connect(w.url, w.token), "data")
	dir := newFolder(t)
	var wg sync.WaitGroup
	var ids [2]string
	for i := range ids {
		wg.Go(func() {
			done, err := transfer.Push(t.Context(), tree, dir, transfer.PushOptions{})
			if err != nil {
				t.Error(err)
				return
			}
			ids[i] = done.Version.ID
		})
	}
	wg.Wait()
	if ids[0] != ids[1] {
		t.Errorf("the same folder has the versions %v", ids)
	}
}

// TestChunksOfOtherOrganisations checks that an organisation can neither use nor read
// the chunks of another one.
func TestChunksOfOtherOrganisations(t *testing.T) {
	w := newWorld(t)
	own := w.volume(w.connect(w.url, w.token), "data")
	dir := newFolder(t)
	if _, err := transfer.Push(t.Context(), own, dir, transfer.PushOptions{}); err != nil {
		t.Fatal(err)
	}
	other := w.connect(w.url, w.login("other", "eve"))
	theirs := w.volume(other, "data")
	plan, err := transfer.Push(t.Context(), theirs, dir, transfer.PushOptions{DryRun: true})
	if err != nil || plan.Sent.Files != 3 {
		t.Errorf("another organisation would send %+v, %v", plan.Sent, err)
	}
	body, err := own.OpenTree(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	tree, err := io.ReadAll(body)
	if err := errors.Join(err, body.Close()); err != nil {
		t.Fatal(err)
	}
	if _, _, err := theirs.PushTree(t.Context(), bytes.NewReader(tree), int64(len(tree))); !errors.Is(err, transfer.ErrChunksMissing) {
		t.Errorf("a tree of foreign chunks returned %v", err)
	}
	foreign := transfer.ClientRemote{Client: other, Trees: other.Volumes, ID: own.ID}
	if _, err := foreign.OpenTree(t.Context()); !client.IsCode(err, stint.CodeResourceNotFound) {
		t.Errorf("a foreign tree returned %v", err)
	}
	selection := (&treewire.Selection{Ranges: []treewire.Range{{First: 0, Count: 1}}}).Append(nil)
	if _, err := foreign.OpenChunks(t.Context(), selection); !client.IsCode(err, stint.CodeResourceNotFound) {
		t.Errorf("foreign chunks returned %v", err)
	}
}

func TestScopesOfChunks(t *testing.T) {
	w := newWorld(t)
	reader := w.connect(w.url, w.tokenWithScope(stint.ScopeRead))
	if _, err := reader.MissingChunks(t.Context(), make([]byte, 32)); !client.IsCode(err, stint.CodeInsufficientScope) {
		t.Errorf("MissingChunks returned %v", err)
	}
	if err := reader.SendChunks(t.Context(), nil); !client.IsCode(err, stint.CodeInsufficientScope) {
		t.Errorf("SendChunks returned %v", err)
	}
}

func TestChunkWithWrongHash(t *testing.T) {
	w := newWorld(t)
	c := w.connect(w.url, w.token)
	var codec files.Codec
	segment, err := codec.Segment([]byte("evil"))
	if err != nil {
		t.Fatal(err)
	}
	frame := treewire.Frame{Hash: sha256.Sum256([]byte("good")), Raw: 4, Segment: segment}
	body := treewire.AppendFramesEnd(treewire.AppendFrame(treewire.AppendFramesHead(nil), &frame))
	err = c.SendChunks(t.Context(), body)
	if !client.IsCode(err, stint.CodeInvalidParameter) || !strings.Contains(err.Error(), fmt.Sprintf("%x", frame.Hash)) {
		t.Errorf("a wrong chunk returned %v", err)
	}
	missing, err := c.MissingChunks(t.Context(), frame.Hash[:])
	if err != nil || !bytes.Equal(missing, frame.Hash[:]) {
		t.Errorf("the chunk was stored: missing %x, %v", missing, err)
	}
}

func TestTreeWithETag(t *testing.T) {
	w := newWorld(t)
	tree := w.volume(w.connect(w.url, w.token), "data")
	if _, err := transfer.Push(t.Context(), tree, newFolder(t), transfer.PushOptions{}); err != nil {
		t.Fatal(err)
	}
	get := func(tag string) *http.Response {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.url+"/v1/volumes/"+tree.ID+"/versions/1/tree", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+w.token)
		if tag != "" {
			req.Header.Set("If-None-Match", tag)
		}
		res, err := w.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, res.Body); err != nil {
			t.Error(err)
		}
		res.Body.Close()
		return res
	}
	first := get("")
	tag := first.Header.Get("ETag")
	if first.StatusCode != 200 || tag == "" {
		t.Fatalf("status %d, ETag %q", first.StatusCode, tag)
	}
	if res := get(tag); res.StatusCode != 304 {
		t.Errorf("status %d for a tree that the client has", res.StatusCode)
	}
	if res := get(`"other"`); res.StatusCode != 200 {
		t.Errorf("status %d for another tree", res.StatusCode)
	}
}
