package archive

import (
	"github.com/stint-dev/stint/internal/files/format"
)

// ZipHeaders returns the headers of a file "f" with size bytes: the local header, the length
// of the local header and the content together, and the record in the central directory if
// the local header begins at the offset at.
func ZipHeaders(size, at int64) (local []byte, body int64, line []byte) {
	e := largeEntry(size)
	stretches := zipShape{}.parts(nil, []*format.Entry{e})
	return stretches[0].literal, total(stretches), zipShape{}.line(nil, e, at)
}

// ZipEnd returns the end of a zip that has a central directory of listing bytes at the
// offset listingAt.
func ZipEnd(entries, listingAt, listing int64) []byte {
	return zipShape{}.end(entries, listingAt, listing)
}

// TarBody returns the header of a file with size bytes in a plain tar, and the length of
// header, content, and padding together.
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
