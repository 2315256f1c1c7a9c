package archive_test

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"testing"

	"github.com/stint-dev/stint/internal/files/archive"
)

// mostlyHoles is a large sparse file. The keys are the offsets of its pieces; all other
// bytes are zero.
type mostlyHoles map[int64][]byte

func (s mostlyHoles) ReadAt(b []byte, at int64) (int, error) {
	clear(b)
	for offset, piece := range s {
		if from := max(offset, at); from < min(offset+int64(len(piece)), at+int64(len(b))) {
			copy(b[from-at:], piece[from-offset:])
		}
	}
	return len(b), nil
}

// TestZipLargeNumbers reads the headers of files with more than 4 GiB, and of files at
// offsets beyond 4 GiB. The contents are holes, because a test cannot store them.
func TestZipLargeNumbers(t *testing.T) {
	t.Parallel()
	for _, want := range []struct{ size, at int64 }{
		{1, 0}, {1<<32 - 10, 0}, {1<<32 - 1, 7}, {1 << 32, 0}, {1 << 40, 5}, {3, 1<<32 - 1}, {3, 1 << 41}, {1 << 40, 1 << 50},
	} {
		local, body, line := archive.ZipHeaders(want.size, want.at)
		listingAt := want.at + body
		end := archive.ZipEnd(1, listingAt, int64(len(line)))
		file := mostlyHoles{want.at: local, listingAt: append(line, end...)}
		r, err := zip.NewReader(file, listingAt+int64(len(line)+len(end)))
		if err != nil || len(r.File) != 1 {
			t.Fatalf("%+v: %v", want, err)
		}
		f := r.File[0]
		at, err := f.DataOffset()
		if err != nil || at != want.at+int64(len(local)) || f.Name != "f" || int64(f.UncompressedSize64) != want.size || int64(f.CompressedSize64) != body-int64(len(local)) {
			t.Errorf("%+v reads as %+v at %d, %v", want, f.FileHeader, at, err)
		}
	}
}

// TestZipManyEntries lists up to 70,000 entries, more than a number of 16 bits can count.
func TestZipManyEntries(t *testing.T) {
	t.Parallel()
	_, body, line := archive.ZipHeaders(1, 0)
	for _, n := range []int{65_534, 65_535, 65_536, 70_000} {
		listing := bytes.Repeat(line, n)
		b := append(listing, archive.ZipEnd(int64(n), body, int64(len(listing)))...)
		r, err := zip.NewReader(mostlyHoles{body: b}, body+int64(len(b)))
		if err != nil || len(r.File) != n {
			t.Errorf("of %d entries %v are read, %v", n, r, err)
		}
	}
}

// TestTarLargeNumbers checks headers and lengths of files that are too large for a test to
// store.
func TestTarLargeNumbers(t *testing.T) {
	t.Parallel()
	for _, size := range []int64{0, 1, 511, 512, 8<<30 - 1, 8 << 30, 1 << 42} {
		head, length := archive.TarBody(size)
		h, err := tar.NewReader(bytes.NewReader(head)).Next()
		if err != nil || h.Size != size || length != int64(len(head))+size+(-size&511) {
			t.Errorf("a file of %d bytes is %v in %d bytes, %v", size, h, length, err)
		}
	}
}
