package image

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/sync/errgroup"
)

const (
	maxLayers  = 512     // layers of an image
	maxConfig  = 8 << 20 // bytes of an image's configuration
	fetchAhead = 3       // layers of an image that are downloaded concurrently
)

// build is an image that is being pulled.
type build struct {
	digest string
	dir    string // folder below work that becomes the root; "" if the root already exists
	marker rootMetadata
}

// pull downloads and unpacks the image with a digest into a new folder, unless the
// root exists already. At most maxPulls calls run at once; others wait. After
// success the caller must call install. It must always call clean, also after an
// error.
func (s *Store) pull(ctx context.Context, r Reference, asked string, g *progress) (b *build, err error) {
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	digest, m, err := s.fetchManifest(r, asked)
	if err != nil {
		return nil, err
	}
	b = &build{digest: digest}
	s.mu.Lock()
	there := s.roots[digest] != nil
	s.mu.Unlock()
	if there {
		return b, nil
	}
	if err := s.build(ctx, r, m, b, g); err != nil {
		return b, s.pullError(r, err)
	}
	return b, nil
}

// install moves the folder of a build to roots and adds the root to the store.
func (s *Store) install(b *build) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b.dir == "" || s.roots[b.digest] != nil {
		return nil
	}
	if err := os.Rename(b.dir, s.path("roots", folderOf(b.digest))); err != nil {
		return fmt.Errorf("installing an image: %w", err)
	}
	s.roots[b.digest] = &root{marker: b.marker, used: s.config.Now()}
	s.config.Logger.Info("unpacked an image", "image", b.digest, "bytes", b.marker.Size)
	return nil
}

// clean removes the files of a build that were not installed.
func (s *Store) clean(b *build) {
	if b == nil || b.dir == "" {
		return
	}
	if err := os.RemoveAll(filepath.Dir(b.dir)); err != nil {
		s.config.Logger.Warn("removing the files of a pull", "image", b.digest, "error", err)
	}
}

// fetchManifest returns the image manifest with the digest asked, and its digest. If
// asked refers to an index, it returns the manifest for the store's platform.
func (s *Store) fetchManifest(r Reference, asked string) (digest string, m *v1.Manifest, err error) {
	d, err := s.manifest(r, asked)
	if err != nil {
		return "", nil, err
	}
	digest = asked
	if d.MediaType.IsIndex() {
		if digest, err = s.selectPlatform(r, d.Manifest); err != nil {
			return "", nil, err
		}
		if d, err = s.manifest(r, digest); err != nil {
			return "", nil, err
		}
	}
	if !d.MediaType.IsImage() {
		return "", nil, invalid(nil, "The image '%s' has the unknown media type '%s'. Push it with a current tool.", r, clip(string(d.MediaType)))
	}
	m, err = v1.ParseManifest(bytes.NewReader(d.Manifest))
	if err != nil {
		return "", nil, invalid(err, "The manifest of the image '%s' cannot be read. Push it again.", r)
	}
	return digest, m, s.checkManifest(r, m)
}

func (s *Store) selectPlatform(r Reference, raw []byte) (string, error) {
	index, err := v1.ParseIndexManifest(bytes.NewReader(raw))
	if err != nil {
		return "", invalid(err, "The index of the image '%s' cannot be read. Push it again.", r)
	}
	var others []string
	for _, d := range index.Manifests {
		if d.Platform == nil || !d.MediaType.IsImage() || d.Digest.Algorithm != "sha256" {
			continue
		}
		if d.Platform.Satisfies(*s.platform) {
			return d.Digest.String(), nil
		}
		if d.Platform.OS != "unknown" && len(others) < 20 {
			others = append(others, d.Platform.String())
		}
	}
	return "", s.platformError(r, others)
}

func (s *Store) platformError(r Reference, others []string) error {
	have := ""
	if len(others) > 0 {
		slices.Sort(others)
		have = ", only for " + clip(strings.Join(slices.Compact(others), ", "))
	}
	return invalid(nil, "The image '%s' is not made for %s%s. Build it for %s.", r, s.platform, have, s.platform)
}

func (s *Store) checkManifest(r Reference, m *v1.Manifest) error {
	if m.Config.MediaType != types.OCIConfigJSON && m.Config.MediaType != types.DockerConfigJSON {
		return invalid(nil, "'%s' is not a container image but '%s'. Name an image.", r, clip(string(m.Config.MediaType)))
	}
	if len(m.Layers) > maxLayers {
		return invalid(nil, "The image '%s' has %d layers; %d is the most that this server takes. Build it with fewer.", r, len(m.Layers), maxLayers)
	}
	if m.Config.Size > maxConfig {
		return s.pullError(r, errTooLarge)
	}
	total := int64(0)
	for _, d := range append([]v1.Descriptor{m.Config}, m.Layers...) {
		if d.Digest.Algorithm != "sha256" || d.Size < 0 {
			return s.pullError(r, newImageError("its manifest names content without a size or a sha256 digest"))
		}
		if total += min(d.Size, s.config.MaxBytes+1); total > s.config.MaxBytes {
			return s.pullError(r, errTooLarge)
		}
	}
	return nil
}

// build downloads and unpacks the image and writes its metadata.
func (s *Store) build(ctx context.Context, r Reference, m *v1.Manifest, b *build, g *progress) error {
	work, err := os.MkdirTemp(s.path("work"), folderOf(b.digest)[:12]+"-")
	if err != nil {
		return err
	}
	b.dir = filepath.Join(work, "root")
	rootfs := filepath.Join(b.dir, rootfsName)
	if err := errors.Join(os.Mkdir(b.dir, 0o700), os.Mkdir(rootfs, 0o700), os.Chmod(rootfs, 0o755)); err != nil { //nolint:gosec // a folder
		return err
	}
	config, err := s.imageConfig(ctx, r, m.Config, filepath.Join(work, "config"))
	if err != nil {
		return err
	}
	allowed := budget{bytes: s.config.MaxBytes, entries: s.config.MaxEntries}
	if err := s.layers(ctx, r, m.Layers, work, rootfs, &allowed, g); err != nil {
		return err
	}
	b.marker = rootMetadata{Digest: b.digest, Size: s.config.MaxBytes - allowed.bytes, Boot: s.boot, Config: config}
	return writeJSON(filepath.Join(b.dir, markerName), b.marker)
}

func (s *Store) imageConfig(ctx context.Context, r Reference, d v1.Descriptor, file string) (v1.Config, error) {
	if err := s.download(ctx, r, d, file, func(int64) {}); err != nil {
		return v1.Config{}, err
	}
	var c v1.ConfigFile
	if err := readJSON(file, &c); err != nil {
		if _, ours := errors.AsType[*os.PathError](err); ours {
			return v1.Config{}, err
		}
		return v1.Config{}, &imageError{why: "its configuration is not valid JSON", cause: err}
	}
	if p := c.Platform(); p != nil && !p.Satisfies(v1.Platform{OS: s.platform.OS, Architecture: s.platform.Architecture}) {
		return v1.Config{}, s.platformError(r, []string{p.String()})
	}
	return c.Config, nil
}

// layers downloads up to fetchAhead layers concurrently, while one goroutine unpacks
// the downloaded layers in order.
func (s *Store) layers(ctx context.Context, r Reference, layers []v1.Descriptor, work, rootfs string, allowed *budget, g *progress) error {
	for _, d := range layers {
		g.total.Add(d.Size)
	}
	file := func(i int) string { return filepath.Join(work, fmt.Sprintf("layer-%d", i)) }
	ready := make([]chan struct{}, len(layers))
	for i := range ready {
		ready[i] = make(chan struct{})
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(1 + fetchAhead)
	group.Go(func() (err error) {
		t, err := newUnpacker(rootfs, allowed)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, t.close()) }()
		left := archiveBytes(allowed)
		for i := range layers {
			select {
			case <-ready[i]:
			case <-ctx.Done():
				return ctx.Err()
			}
			if err := t.unpackFile(ctx, file(i), &left, func(n int64) { g.unpacked.Add(n) }); err != nil {
				return err
			}
		}
		return nil
	})
	for i, d := range layers {
		group.Go(func() error {
			err := s.download(ctx, r, d, file(i), func(n int64) { g.fetched.Add(n) })
			if err == nil {
				close(ready[i])
			}
			return err
		})
	}
	return group.Wait()
}

// archiveBytes returns the maximum total size of the layers' tar archives, in bytes:
// the bytes of the files, and 2048 bytes per entry. An entry has a header of 512 bytes
// and padding of less than 512 bytes; the rest is for long names.
func archiveBytes(b *budget) int64 { return b.bytes + b.entries*2048 }

// unpackFile unpacks the layer in the file p and removes the file. It reduces left by
// the bytes of the archive, and calls count with numbers of compressed bytes.
func (t *unpacker) unpackFile(ctx context.Context, p string, left *int64, count func(int64)) error {
	file, err := os.Open(p)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	rest := info.Size()
	counted := readerFunc(func(b []byte) (int, error) {
		n, err := file.Read(b)
		rest -= int64(n)
		count(int64(n))
		return n, err
	})
	if err := t.unpackLayer(ctx, counted, left); err != nil {
		return err
	}
	count(rest) // bytes after the end of the archive, which are not read
	return os.Remove(p)
}
