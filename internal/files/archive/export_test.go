package archive

import (
	"github.com/stint-dev/stint/internal/files/format"
)

// ZipHeaders returns the local header of a file "f" of that size whose content
// begins at an offset, the length of the content in the zip, and its record in
// the directory.
func ZipHeaders(size, at int64) (local []byte, body int64, line []byte) {
	e := largeEntry(size)
	stretches := zipShape{}.parts(nil, []*format.Entry{e})
	return stretches[0].literal, total(stretches), zipShape{}.line(nil, e, at)
}

// ZipEnd returns the end of a zip.
func ZipEnd(entries, listingAt, listing int64) []byte {
	return zipShape{}.end(entries, listingAt, listing)
}

// TarBody returns the header of a file of that size in a plain tar, and the
// total length.
func TarBody(size int64) (head []byte, length int64) {
	stretches := tarShape{}.parts(nil, []*format.Entry{largeEntry(size)})
	return stretches[0].literal, total(stretches)
}

func largeEntry(size int64) *format.Entry {
	e := &format.Entry{Path: "f", Kind: format.File, Mode: 0o644, Size: size}
	for left := size; left > 0; left -= min(left, 1<<31) {
		n := uint32(min(left, 1<<31))
		e.Chunks = append(e.Chunks, format.Chunk{Size: n, Place: format.Place{Length: n}})
	}
	return e
}
