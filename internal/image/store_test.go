package image_test

import (
	"context"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"go.uber.org/goleak"

	stint "github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/image"
	"github.com/stint-dev/stint/internal/image/imagetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// anonymous is a keychain without credentials. It keeps tests independent of the user's
// credentials.
type anonymous struct{}

func (anonymous) Resolve(authn.Resource) (authn.Authenticator, error) { return authn.Anonymous, nil }

func open(t testing.TB, c image.Config) *image.Store {
	t.Helper()
	if c.Dir == "" {
		c.Dir = filepath.Join(t.TempDir(), "images")
	}
	if c.Keychain == nil {
		c.Keychain = anonymous{}
	}
	s, err := image.Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func acquire(t testing.TB, s *image.Store, ref string) *image.Root {
	t.Helper()
	r, err := s.Acquire(t.Context(), ref, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// wantFault checks that err is a *stint.Error of the given kind for the parameter
// "image", and that its message contains words, but no path of a temporary folder.
func wantFault(t testing.TB, err error, kind stint.Kind, words ...string) {
	t.Helper()
	e, ok := errors.AsType[*stint.Error](err)
	if !ok {
		t.Errorf("got %v, want a fault", err)
		return
	}
	if e.Kind != kind || e.Param != "image" {
		t.Errorf("got kind %v and parameter %q in %v, want kind %v", e.Kind, e.Param, e, kind)
	}
	for _, w := range words {
		if !strings.Contains(e.Message, w) {
			t.Errorf("the message is %q, want it to say %q", e.Message, w)
		}
	}
	if strings.Contains(e.Message, os.TempDir()) {
		t.Errorf("%q contains a path of this machine", e.Message)
	}
}

func textFile(text string) map[string]imagetest.File {
	return map[string]imagetest.File{"etc/text": {Data: []byte(text)}}
}

func text(t testing.TB, r *image.Root) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(r.Dir, "etc/text"))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// list returns the names of the entries in the folder name of a store.
func list(t testing.TB, dir, name string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestAcquire(t *testing.T) {
	t.Parallel()
	host := imagetest.Registry(t)
	config := v1.Config{Env: []string{"PATH=/bin"}, WorkingDir: "/srv", User: "1000:1000", Entrypoint: []string{"/bin/tool"}, Cmd: []string{"serve"}}
	ref, digest := imagetest.Push(t, host, "acme/tool:1", map[string]imagetest.File{
		"bin/tool": {Data: []byte("#!"), Mode: 0o755}, "bin/t": {Mode: fs.ModeSymlink, Link: "tool"}, "home": {Mode: fs.ModeDir | 0o700}, "etc/text": {Data: []byte("hello")},
	}, config)
	dir := filepath.Join(t.TempDir(), "images")
	s := open(t, image.Config{Dir: dir})
	var done, total int64
	r, err := s.Acquire(t.Context(), ref, func(d, all int64) { done, total = d, all })
	if err != nil {
		t.Fatal(err)
	}
	if done == 0 || done != total {
		t.Errorf("progress ended at %d of %d", done, total)
	}
	want := map[string]string{"bin": "drwxr-xr-x", "bin/tool": "-rwxr-xr-x #!", "bin/t": "-> tool", "home": "drwx------", "etc": "drwxr-xr-x", "etc/text": "-rw-r--r-- hello"}
	if diff := cmp.Diff(want, listing(t, r.Dir)); diff != "" {
		t.Errorf("root (-want +got):\n%s", diff)
	}
	got := v1.Config{Env: r.Env, WorkingDir: r.WorkingDir, User: r.User, Entrypoint: r.Entrypoint, Cmd: r.Cmd}
	if diff := cmp.Diff(config, got); diff != "" || r.Digest != digest || r.Note != "" {
		t.Errorf("digest %s, note %q, config (-want +got):\n%s", r.Digest, r.Note, diff)
	}
	for p, want := range map[string]fs.FileMode{dir: 0o700, filepath.Dir(filepath.Dir(r.Dir)): 0o700, r.Dir: 0o755} {
		if info, err := os.Stat(p); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s has mode %v, %v, want %v", p, info.Mode(), err, want)
		}
	}
	if left := list(t, dir, "work"); len(left) > 0 {
		t.Errorf("left in work: %v", left)
	}
	r.Release()
	r.Release()
}

func TestTagsMoveDigestsStay(t *testing.T) {
	t.Parallel()
	host := imagetest.Registry(t)
	dir := filepath.Join(t.TempDir(), "images")
	s := open(t, image.Config{Dir: dir})
	ref, first := imagetest.Push(t, host, "a:x", textFile("one"), v1.Config{})
	old := acquire(t, s, ref)
	_, second := imagetest.Push(t, host, "a:x", textFile("two"), v1.Config{})
	current := acquire(t, s, ref)
	pinned := acquire(t, s, ref+"@"+first)
	if text(t, old) != "one" || text(t, current) != "two" || text(t, pinned) != "one" || current.Digest != second {
		t.Errorf("got %s, %s and %s", text(t, old), text(t, current), text(t, pinned))
	}
	for _, r := range []*image.Root{old, current, pinned} {
		r.Release()
	}
	if err := s.Collect(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := list(t, dir, "roots"); len(got) != 2 {
		t.Errorf("roots are %v, want those of the tag and of the pin", got)
	}
}

func TestUnavailableRegistry(t *testing.T) {
	t.Parallel()
	var down atomic.Bool
	host := imagetest.Serve(t, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if down.Load() {
				panic(http.ErrAbortHandler)
			}
			h.ServeHTTP(w, r)
		})
	})
	ref, digest := imagetest.Push(t, host, "a", textFile("one"), v1.Config{})
	dir := filepath.Join(t.TempDir(), "images")
	s, err := image.Open(t.Context(), image.Config{Dir: dir, Keychain: anonymous{}})
	if err != nil {
		t.Fatal(err)
	}
	acquire(t, s, ref).Release()
	s.Close()
	down.Store(true)
	s = open(t, image.Config{Dir: dir})
	if r := acquire(t, s, ref+"@"+digest); r.Note != "" || text(t, r) != "one" {
		t.Errorf("digest: %+v", r)
	}
	if r := acquire(t, s, ref); !strings.Contains(r.Note, "did not answer") || text(t, r) != "one" {
		t.Errorf("tag: %+v", r)
	}
	_, err = s.Acquire(t.Context(), host+"/other", nil)
	wantFault(t, err, stint.KindUnavailable, "could not be reached", host)
	_, err = s.Acquire(t.Context(), host+"/other@"+someDigest, nil)
	wantFault(t, err, stint.KindUnavailable, "could not be reached")
}

func TestRequestTimeout(t *testing.T) {
	t.Parallel()
	host := imagetest.Serve(t, func(http.Handler) http.Handler {
		return http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	})
	s := open(t, image.Config{AskTime: 50 * time.Millisecond})
	_, err := s.Acquire(t.Context(), host+"/a", nil)
	wantFault(t, err, stint.KindUnavailable, "could not be reached")
	patient := open(t, image.Config{AskTime: time.Hour})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := patient.Acquire(ctx, host+"/a", nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want context.DeadlineExceeded", err)
	}
}

func TestInvalidImages(t *testing.T) {
	t.Parallel()
	host := imagetest.Registry(t)
	raw := func(b []byte) v1.Layer { return static.NewLayer(b, types.OCIUncompressedLayer) }
	hostile, _ := imagetest.PushLayers(t, host, "hostile", v1.Config{}, raw(layer(t, file("../x", "1"))))
	broken, _ := imagetest.PushLayers(t, host, "broken", v1.Config{}, raw([]byte(strings.Repeat("x", 2000))))
	large, _ := imagetest.PushLayers(t, host, "large", v1.Config{}, raw(gzipped(t, layer(t, file("x", strings.Repeat("x", 2<<20))))))
	wide, _ := imagetest.PushLayers(t, host, "wide", v1.Config{}, raw(layer(t, file("a", ""), file("b", ""), file("c", ""), file("d", ""))))
	foreign, _ := imagetest.PushImage(t, host, "foreign", imagetest.Build(t, "plan9", "mips", v1.Config{}))
	chart, _ := imagetest.PushImage(t, host, "chart", mutate.ConfigMediaType(empty.Image, "application/vnd.cncf.helm.config.v1+json"))
	many := make([]v1.Layer, 513)
	for i := range many {
		many[i] = raw(layer(t))
	}
	deep, _ := imagetest.PushLayers(t, host, "deep", v1.Config{}, many...)
	dir := filepath.Join(t.TempDir(), "images")
	s := open(t, image.Config{Dir: dir, MaxBytes: 1 << 20, MaxEntries: 3})
	for ref, want := range map[string]string{
		host + "/none":               "'" + host + "/none:latest' does not exist",
		host + "/none@" + someDigest: "does not exist",
		hostile:                      "its entry '../x' leads out of the image",
		broken:                       "not a readable archive",
		large:                        "larger than 1MiB",
		wide:                         "more than 3 files and folders",
		foreign:                      "not made for linux/" + runtime.GOARCH + ", only for plan9/mips",
		chart:                        "is not a container image but",
		deep:                         "513 layers",
		"Upper":                      "lower case",
	} {
		_, err := s.Acquire(t.Context(), ref, nil)
		wantFault(t, err, stint.KindInvalid, want)
	}
	if left := append(list(t, dir, "work"), list(t, dir, "roots")...); len(left) > 0 {
		t.Errorf("left on disk: %v", left)
	}
}

func TestPlainHTTPNeedsPermission(t *testing.T) {
	t.Parallel()
	host := imagetest.Registry(t)
	ref, _ := imagetest.Push(t, host, "a", textFile("one"), v1.Config{})
	s := open(t, image.Config{Insecure: func(string) bool { return false }})
	_, err := s.Acquire(t.Context(), ref, nil)
	wantFault(t, err, stint.KindUnavailable, "could not be reached")
}

func TestIndexSelectsPlatform(t *testing.T) {
	t.Parallel()
	host := imagetest.Registry(t)
	raw := func(b []byte) v1.Layer { return static.NewLayer(b, types.OCIUncompressedLayer) }
	arm := imagetest.Build(t, "linux", "arm64", v1.Config{}, raw(layer(t, file("etc/text", "arm"))))
	riscv := imagetest.Build(t, "linux", "riscv64", v1.Config{}, raw(layer(t, file("etc/text", "riscv"))))
	index := mutate.AppendManifests(empty.Index,
		mutate.IndexAddendum{Add: riscv, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: "riscv64"}}},
		mutate.IndexAddendum{Add: arm, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: "arm64", Variant: "v8"}}})
	tag, err := name.NewTag(host + "/multi:1")
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.WriteIndex(tag, index); err != nil {
		t.Fatal(err)
	}
	digest, err := index.Digest()
	if err != nil {
		t.Fatal(err)
	}
	s := open(t, image.Config{Platform: "linux/arm64"})
	byTag, byDigest := acquire(t, s, tag.String()), acquire(t, s, host+"/multi@"+digest.String())
	want, err := arm.Digest()
	if err != nil {
		t.Fatal(err)
	}
	if text(t, byTag) != "arm" || byTag.Digest != want.String() || byDigest.Dir != byTag.Dir {
		t.Errorf("got %+v and %+v", byTag, byDigest)
	}
	_, err = open(t, image.Config{Platform: "linux/s390x"}).Acquire(t.Context(), tag.String(), nil)
	wantFault(t, err, stint.KindInvalid, "linux/s390x", "only for linux/arm64/v8, linux/riscv64")
}

// clock is a clock that advances by one minute each time it is read.
type clock struct{ at atomic.Int64 }

func (c *clock) now() time.Time { return time.Unix(c.at.Add(60), 0) }

func TestCollectRemovesLeastRecentlyUsed(t *testing.T) {
	t.Parallel()
	host := imagetest.Registry(t)
	dir := filepath.Join(t.TempDir(), "images")
	var c clock
	c.at.Store(1_700_000_000)
	config := image.Config{Dir: dir, KeepBytes: 40 << 10, Now: c.now, Keychain: anonymous{}}
	s, err := image.Open(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	digests := map[string]string{}
	for _, n := range []string{"a", "b", "c", "d"} {
		ref, digest := imagetest.Push(t, host, n, textFile(strings.Repeat(n, 10<<10)), v1.Config{})
		digests[n] = strings.TrimPrefix(digest, "sha256:")
		acquire(t, s, ref).Release()
	}
	s.Close()
	s = open(t, config)                // the times of use are stored on disk
	acquire(t, s, host+"/a").Release() // b is now the oldest
	kept := acquire(t, s, host+"/b")   // b is in use, so it is kept
	if err := s.Collect(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := []string{digests["a"], digests["b"], digests["d"]}
	slices.Sort(want)
	if diff := cmp.Diff(want, list(t, dir, "roots")); diff != "" {
		t.Errorf("roots (-want +got):\n%s", diff)
	}
	kept.Release()
	moved, _ := imagetest.Push(t, host, "a", textFile("moved"), v1.Config{})
	acquire(t, s, moved).Release()
	if err := s.Collect(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, name := range list(t, dir, "roots") {
		if name == digests["a"] {
			t.Error("a root without a tag was kept")
		}
	}
}

func TestOpenAfterCrash(t *testing.T) {
	t.Parallel()
	host := imagetest.Registry(t)
	ref, digest := imagetest.Push(t, host, "a", textFile("one"), v1.Config{})
	dir := filepath.Join(t.TempDir(), "images")
	s := open(t, image.Config{Dir: dir})
	acquire(t, s, ref).Release()
	if err := s.Collect(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.Close()
	marker, err := os.ReadFile(filepath.Join(dir, "roots", strings.TrimPrefix(digest, "sha256:"), "image.json"))
	if err != nil || strings.Contains(string(marker), "boot") {
		t.Errorf("after collecting, the marker is %s, %v; want no boot ID", marker, err)
	}
	other := strings.Repeat("ab", 32)
	for p, content := range map[string]string{
		"work/0123-4/root/rootfs/half": "x", "work/0123-4/layer-1": "x", "work/gone-5/root/rootfs/file": "x", "work/file-6/file": "{",
		"roots/" + other + "/rootfs/file":                      "no marker",
		"roots/" + strings.Repeat("cd", 32) + "/image.json":    `{"digest":"sha256:` + strings.Repeat("cd", 32) + `"}`,
		"roots/" + strings.Repeat("ce", 32) + "/image.json":    `{"digest":"sha256:` + strings.Repeat("ce", 32) + `","boot":"an earlier one"}`,
		"roots/" + strings.Repeat("ce", 32) + "/rootfs/file":   "perhaps on disk",
		"roots/" + strings.Repeat("cf", 32) + "/image.json":    "",
		"roots/" + strings.Repeat("da", 32) + "/image.json":    `{"digest":"` + digest + `"}`,
		"roots/" + strings.Repeat("da", 32) + "/rootfs/fi\nle": "another's",
	} {
		p = filepath.Join(dir, p)
		if err := errors.Join(os.MkdirAll(filepath.Dir(p), 0o700), os.WriteFile(p, []byte(content), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "names.json"), []byte(`{"a`), 0o600); err != nil {
		t.Fatal(err)
	}
	s = open(t, image.Config{Dir: dir})
	if left := list(t, dir, "work"); len(left) > 0 {
		t.Errorf("left in work: %v", left)
	}
	if diff := cmp.Diff([]string{strings.TrimPrefix(digest, "sha256:")}, list(t, dir, "roots")); diff != "" {
		t.Errorf("roots (-want +got):\n%s", diff)
	}
	if r := acquire(t, s, ref); text(t, r) != "one" {
		t.Errorf("got %q", text(t, r))
	}
}
