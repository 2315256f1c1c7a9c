package image

import (
	"archive/tar"
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"path"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

const (
	whiteoutPrefix = ".wh."         // an entry .wh.NAME removes NAME of earlier layers
	opaqueWhiteout = ".wh..wh..opq" // removes all entries of earlier layers in its folder
	aufsPrefix     = ".wh..wh."     // other internal files of AUFS, which are ignored

	maxWindow = 128 << 20 // maximum window size of a zstd layer in bytes
)

// unpackLayer unpacks one layer. left is the maximum size in bytes of the uncompressed
// archives of this and the following layers; unpackLayer subtracts the bytes that it
// reads.
func (t *unpacker) unpackLayer(ctx context.Context, layer io.Reader, left *int64) error {
	plain, err := decompress(bufio.NewReaderSize(layer, 256<<10))
	if err != nil {
		return archiveError(err)
	}
	defer plain.Close()
	t.beginLayer()
	archive := tar.NewReader(&limitedReader{ctx: ctx, r: plain, left: left})
	for {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return archiveError(err)
		}
		content := &errorRecorder{r: archive}
		if err := t.entry(h, content); err != nil {
			if content.err != nil {
				return archiveError(content.err)
			}
			return entryError(h.Name, err)
		}
	}
}

// errorRecorder records a read error in err, to distinguish it from a write error.
type errorRecorder struct {
	r   io.Reader
	err error
}

func (s *errorRecorder) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
	}
	return n, err
}

// archiveError returns an *imageError for an error of reading a layer. It returns an
// error of reading the downloaded file (a *fs.PathError), errTooLarge, and context
// errors unchanged.
func archiveError(err error) error {
	if _, ok := errors.AsType[*fs.PathError](err); ok {
		return err
	}
	for _, own := range []error{errTooLarge, context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, own) {
			return err
		}
	}
	return &imageError{why: "one of its layers is not a readable archive", cause: err}
}

// decompress returns a reader for the uncompressed layer. It detects gzip and zstd by
// the first bytes; other content is returned unchanged.
func decompress(r *bufio.Reader) (io.ReadCloser, error) {
	magic, err := r.Peek(4)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	switch {
	case bytes.HasPrefix(magic, []byte{0x1f, 0x8b}):
		return gzip.NewReader(r)
	case bytes.Equal(magic, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		d, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecoderLowmem(true))
		if err != nil {
			return nil, err
		}
		return d.IOReadCloser(), nil
	}
	return io.NopCloser(r), nil
}

// limitedReader returns an error when ctx ends, and errTooLarge when more than left
// bytes were read.
type limitedReader struct {
	ctx  context.Context
	r    io.Reader
	left *int64
}

func (m *limitedReader) Read(p []byte) (int, error) {
	if err := m.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := m.r.Read(p)
	if *m.left -= int64(n); *m.left < 0 {
		return 0, errTooLarge
	}
	return n, err
}

// entry unpacks one entry of an archive.
func (t *unpacker) entry(h *tar.Header, content io.Reader) error {
	if h.Typeflag == tar.TypeXGlobalHeader {
		return nil
	}
	name, err := cleanName(h.Name)
	if err != nil {
		return err
	}
	if err := t.budget.take(entrySize(h)); err != nil {
		return err
	}
	if name == "" {
		if h.Typeflag != tar.TypeDir {
			return newImageError("one of its layers puts something else in the place of the root folder")
		}
		return t.rootFolder(h)
	}
	dir, base := split(name)
	if strings.HasPrefix(base, whiteoutPrefix) {
		return t.applyWhiteout(dir, base)
	}
	f, err := t.openParent(dir)
	if err != nil {
		return err
	}
	switch h.Typeflag {
	case tar.TypeReg, tar.TypeCont, tar.TypeGNUSparse:
		return t.file(f, base, h, content)
	case tar.TypeDir:
		return t.folder(f, base, h)
	case tar.TypeSymlink:
		return t.symlink(f, base, h.Linkname)
	case tar.TypeLink:
		return t.hardLink(f, base, h.Linkname)
	}
	// Entries of other types, such as devices and pipes, are not created, but they
	// still remove an existing entry with the same name.
	return t.remove(f, base)
}

// entrySize returns the size of an entry's content in bytes.
func entrySize(h *tar.Header) int64 {
	switch h.Typeflag {
	case tar.TypeReg, tar.TypeCont, tar.TypeGNUSparse:
		return h.Size
	}
	return 0
}

// cleanName returns the clean path of an entry relative to the root, or "" for the
// root. It returns an error if the name is too long or leads out of the root.
func cleanName(name string) (string, error) {
	if len(name) > maxPath {
		return "", newImageError("it holds a path longer than %d bytes", maxPath)
	}
	p := path.Clean(strings.TrimLeft(name, "/"))
	if p == ".." || strings.HasPrefix(p, "../") {
		return "", newImageError("its entry %s leads out of the image", quote(name))
	}
	if p == "." {
		return "", nil
	}
	return p, nil
}

// applyWhiteout processes the whiteout entry base in the folder dir.
func (t *unpacker) applyWhiteout(dir, base string) error {
	real, err := t.resolve(dir, false)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := t.closeParent(); err != nil { // the whiteout may remove the open folder
		return err
	}
	if base == opaqueWhiteout {
		return t.whiteoutContents(real)
	}
	if strings.HasPrefix(base, aufsPrefix) {
		return nil
	}
	hidden := strings.TrimPrefix(base, whiteoutPrefix)
	if hidden == "" || hidden == "." || hidden == ".." {
		return newImageError("its entry %s hides no name", quote(path.Join(dir, base)))
	}
	return t.whiteout(path.Join(real, hidden))
}
