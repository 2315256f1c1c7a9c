package files_test

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/stint-dev/stint/internal/blob"
	"github.com/stint-dev/stint/internal/files"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if os.Getenv("STINT_TEST_SCAN") != "" {
		os.Exit(scanUnprivileged())
	}
	goleak.VerifyTestMain(m)
}

const org = "org_01jd0000000000000000000000"

// memory is a blob.Store that keeps its objects in memory.
type memory struct {
	mu      sync.Mutex // guards the fields below
	objects map[string][]byte
	puts    []string               // keys of successful puts, in order
	before  func(key string) error // called by Put, which returns its error; may be nil
}

func newMemory() *memory { return &memory{objects: map[string][]byte{}} }

func (m *memory) Put(ctx context.Context, key string, r io.Reader, size int64) error {
	if err := errors.Join(blob.CheckKey(key), ctx.Err()); err != nil {
		return err
	}
	b, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	if size >= 0 && int64(len(b)) != size {
		return errors.New("the size is wrong")
	}
	if m.before != nil {
		if err := m.before(key); err != nil {
			return err
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.objects[key]; ok {
		return blob.ErrExists
	}
	m.objects[key] = b
	m.puts = append(m.puts, key)
	return ctx.Err()
}

func (m *memory) Get(ctx context.Context, key string, offset, n int64) (io.ReadCloser, error) {
	if err := errors.Join(blob.CheckKey(key), ctx.Err()); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	b, ok := m.objects[key]
	if !ok {
		return nil, fmt.Errorf("getting %s: %w", key, blob.ErrNotFound)
	}
	b = b[min(offset, int64(len(b))):]
	if n >= 0 {
		b = b[:min(n, int64(len(b)))]
	}
	return io.NopCloser(bytes.NewReader(b)), nil
}

func (m *memory) Stat(ctx context.Context, key string) (blob.Info, error) {
	if err := errors.Join(blob.CheckKey(key), ctx.Err()); err != nil {
		return blob.Info{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	b, ok := m.objects[key]
	if !ok {
		return blob.Info{}, fmt.Errorf("looking at %s: %w", key, blob.ErrNotFound)
	}
	return blob.Info{Key: key, Size: int64(len(b))}, nil
}

func (m *memory) Delete(ctx context.Context, key string) error {
	if err := errors.Join(blob.CheckKey(key), ctx.Err()); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.objects, key)
	return nil
}

func (m *memory) List(_ context.Context, prefix string) iter.Seq2[blob.Info, error] {
	return func(yield func(blob.Info, error) bool) {
		for _, key := range m.keys() {
			if strings.HasPrefix(key, prefix) && !yield(blob.Info{Key: key, Size: m.size(key)}, nil) {
				return
			}
		}
	}
}

func (m *memory) size(key string) int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return int64(len(m.objects[key]))
}

func (m *memory) keys() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Sorted(maps.Keys(m.objects))
}

func (m *memory) bytes() (n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, b := range m.objects {
		n += len(b)
	}
	return n
}

func newLibrary(t testing.TB, s blob.Store, o files.Options) *files.Library {
	t.Helper()
	if o.TempDir == "" {
		o.TempDir = t.TempDir()
		t.Cleanup(func() {
			if left, err := os.ReadDir(o.TempDir); err != nil || len(left) > 0 {
				t.Errorf("the folder of temporary files contains %v, %v", left, err)
			}
		})
	}
	l, err := files.New(s, o)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// noise returns n incompressible bytes.
func noise(seed byte, n int) []byte {
	b := make([]byte, n)
	src := rand.NewChaCha8([32]byte{seed})
	_, _ = src.Read(b)
	return b
}

// text returns n compressible bytes.
func text(seed byte, n int) []byte {
	words := strings.Fields("the run of an agent is one durable row and one append only journal whose last word is its status")
	r := rand.New(rand.NewPCG(uint64(seed), 7))
	var b bytes.Buffer
	for b.Len() < n {
		fmt.Fprintf(&b, "%s %d ", words[r.IntN(len(words))], r.IntN(100))
	}
	return b.Bytes()[:n]
}

var someTime = time.Date(2026, 3, 4, 5, 6, 7, 89_000_000, time.UTC)

// item is an entry of a tree. The names of folders end with a slash.
type item struct {
	name   string
	mode   int64
	mtime  time.Time
	body   []byte
	target string
}

func (i item) header() *tar.Header {
	h := &tar.Header{
		Name: i.name, Mode: i.mode, ModTime: i.mtime, Size: int64(len(i.body)),
		Linkname: i.target, Typeflag: tar.TypeReg, Format: tar.FormatPAX,
	}
	if h.Mode == 0 {
		h.Mode = 0o644
	}
	if h.ModTime.IsZero() {
		h.ModTime = someTime
	}
	switch {
	case i.target != "":
		h.Typeflag, h.Mode = tar.TypeSymlink, 0o777
	case strings.HasSuffix(i.name, "/"):
		h.Typeflag = tar.TypeDir
	}
	return h
}

func tarOf(t testing.TB, items ...item) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, i := range items {
		if err := w.WriteHeader(i.header()); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(i.body); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func gzipped(t testing.TB, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, err := w.Write(b)
	if err := errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func zstdOf(t testing.TB, b []byte) []byte {
	t.Helper()
	w, err := zstd.NewWriter(nil, zstd.WithEncoderCRC(true))
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	return w.EncodeAll(b, nil)
}

// stored commits an archive of the items with the given parent, and returns the
// reference to the tree.
func stored(t testing.TB, l *files.Library, parent string, items ...item) files.Ref {
	t.Helper()
	ref, err := l.CommitArchive(t.Context(), org, parent, files.Tar, bytes.NewReader(tarOf(t, items...)))
	if err != nil {
		t.Fatal(err)
	}
	return ref
}

// look describes an entry on disk or in an archive.
type look struct {
	Kind   string
	Mode   fs.FileMode
	Mtime  string
	Target string
	Sum    string
}

const allDigits = "2006-01-02T15:04:05.000000000"

func lookOf(kind string, mode fs.FileMode, mtime time.Time, target string, body []byte) look {
	k := look{Kind: kind, Mode: mode.Perm(), Mtime: mtime.UTC().Format(allDigits), Target: target}
	if kind == "file" {
		k.Sum = fmt.Sprintf("%d:%x", len(body), sha256.Sum256(body))
	}
	return k
}

// folderLooks describes every entry below dir by its path. It does not describe
// dir itself.
func folderLooks(t testing.TB, dir string) map[string]look {
	t.Helper()
	seen := map[string]look{}
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || p == dir {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		name := strings.TrimPrefix(p, dir+"/")
		switch {
		case d.IsDir():
			seen[name] = lookOf("dir", info.Mode(), info.ModTime(), "", nil)
		case d.Type() == fs.ModeSymlink:
			target, err := os.Readlink(p)
			seen[name] = lookOf("symlink", 0o777, info.ModTime(), target, nil)
			return err
		default:
			b, err := os.ReadFile(p)
			seen[name] = lookOf("file", info.Mode(), info.ModTime(), "", b)
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return seen
}

// archiveLooks describes every entry of a tar.gz archive by its path.
func archiveLooks(t testing.TB, b []byte) map[string]look {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]look{}
	r := tar.NewReader(z)
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		kind := map[byte]string{tar.TypeReg: "file", tar.TypeDir: "dir", tar.TypeSymlink: "symlink"}[h.Typeflag]
		seen[strings.TrimSuffix(h.Name, "/")] = lookOf(kind, fs.FileMode(h.Mode), h.ModTime, h.Linkname, body)
	}
	if rest, err := io.ReadAll(z); err != nil || len(bytes.Trim(rest, "\x00")) > 0 {
		t.Fatalf("after the tar come %d bytes and %v", len(rest), err)
	}
	return seen
}

func itemLooks(items []item) map[string]look {
	seen := map[string]look{}
	for _, i := range items {
		h := i.header()
		kind := map[byte]string{tar.TypeReg: "file", tar.TypeDir: "dir", tar.TypeSymlink: "symlink"}[h.Typeflag]
		seen[strings.TrimSuffix(i.name, "/")] = lookOf(kind, fs.FileMode(h.Mode), h.ModTime, i.target, i.body)
	}
	return seen
}

func readArchive(t testing.TB, l *files.Library, digest string) []byte {
	t.Helper()
	a, err := l.Download(t.Context(), org, digest, files.TarGzip)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(a)
	if err := errors.Join(err, a.Close()); err != nil {
		t.Fatal(err)
	}
	if int64(len(b)) != a.Size() {
		t.Errorf("the archive has %d bytes, its Size is %d", len(b), a.Size())
	}
	return b
}
