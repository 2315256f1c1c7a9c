// Package imagetest runs an image registry for tests and pushes images to it.
package imagetest

import (
	"archive/tar"
	"bytes"
	"io"
	"io/fs"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"path"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Registry runs an empty registry until the test ends and returns its address as
// "host:port". The registry uses plain HTTP on a loopback address.
func Registry(t testing.TB) (host string) {
	t.Helper()
	return Serve(t, func(h http.Handler) http.Handler { return h })
}

// Serve is like Registry, but serves the handler that wrap returns for the registry's
// handler.
func Serve(t testing.TB, wrap func(http.Handler) http.Handler) (host string) {
	t.Helper()
	server := httptest.NewServer(wrap(registry.New(registry.Logger(log.New(io.Discard, "", 0)))))
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}

// File is one entry of an image.
type File struct {
	Data []byte
	Mode fs.FileMode // type and permissions; the default permissions are 0644, or 0755 for a folder
	Link string      // target of a symbolic link
}

// Push builds an image for this platform with one layer that contains files, and
// pushes the image. name is "name" or "name:tag". The keys of files are paths relative
// to the root, such as "bin/sh". Missing parent folders are added. Push returns a
// reference for image.Store.Acquire, and the digest of the image's manifest.
func Push(t testing.TB, host, name string, files map[string]File, config v1.Config) (ref, digest string) {
	t.Helper()
	return PushLayers(t, host, name, config, static.NewLayer(Archive(t, entries(files)...), types.OCIUncompressedLayer))
}

// PushLayers is like Push, but the image has the given layers.
func PushLayers(t testing.TB, host, name string, config v1.Config, layers ...v1.Layer) (ref, digest string) {
	t.Helper()
	return PushImage(t, host, name, Build(t, "linux", runtime.GOARCH, config, layers...))
}

// Build returns an image with the given layers for the operating system and
// architecture.
func Build(t testing.TB, system, architecture string, config v1.Config, layers ...v1.Layer) v1.Image {
	t.Helper()
	image := mutate.MediaType(empty.Image, types.OCIManifestSchema1)
	image = mutate.ConfigMediaType(image, types.OCIConfigJSON)
	image, err := mutate.ConfigFile(image, &v1.ConfigFile{OS: system, Architecture: architecture, Config: config, RootFS: v1.RootFS{Type: "layers"}})
	if err != nil {
		t.Fatalf("building an image: %v", err)
	}
	image, err = mutate.AppendLayers(image, layers...)
	if err != nil {
		t.Fatalf("building an image: %v", err)
	}
	return image
}

// PushImage pushes an image under a name and returns the same values as Push.
func PushImage(t testing.TB, host, named string, image v1.Image) (ref, digest string) {
	t.Helper()
	ref = host + "/" + named
	tag, err := name.NewTag(ref)
	if err != nil {
		t.Fatalf("naming an image: %v", err)
	}
	if err := remote.Write(tag, image, remote.WithContext(t.Context())); err != nil {
		t.Fatalf("pushing an image: %v", err)
	}
	h, err := image.Digest()
	if err != nil {
		t.Fatalf("reading a digest: %v", err)
	}
	return ref, h.String()
}

// Entry is one entry of an archive.
type Entry struct {
	tar.Header
	Data []byte
}

// Archive returns a tar archive with the entries. It sets the size of an entry to the
// length of its data if the size is 0, and changes nothing else.
func Archive(t testing.TB, entries ...Entry) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range entries {
		h := e.Header
		if h.Size == 0 {
			h.Size = int64(len(e.Data))
		}
		if err := w.WriteHeader(&h); err != nil {
			t.Fatalf("writing %q to an archive: %v", h.Name, err)
		}
		if _, err := w.Write(e.Data); err != nil {
			t.Fatalf("writing %q to an archive: %v", h.Name, err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatalf("closing an archive: %v", err)
	}
	return b.Bytes()
}

func entries(files map[string]File) []Entry {
	all := maps.Clone(files)
	for p := range files {
		for dir := path.Dir(p); dir != "."; dir = path.Dir(dir) {
			if _, ok := all[dir]; !ok {
				all[dir] = File{Mode: fs.ModeDir}
			}
		}
	}
	var out []Entry
	for _, p := range slices.Sorted(maps.Keys(all)) {
		out = append(out, entry(p, all[p]))
	}
	return out
}

func entry(p string, f File) Entry {
	h := tar.Header{Name: p, Typeflag: tar.TypeReg, Mode: 0o644, ModTime: time.Unix(1_700_000_000, 0)}
	switch f.Mode.Type() {
	case fs.ModeDir:
		h.Typeflag, h.Mode = tar.TypeDir, 0o755
	case fs.ModeSymlink:
		h.Typeflag, h.Linkname = tar.TypeSymlink, f.Link
	}
	if f.Mode.Perm() != 0 {
		h.Mode = int64(f.Mode.Perm())
	}
	return Entry{Header: h, Data: f.Data}
}
