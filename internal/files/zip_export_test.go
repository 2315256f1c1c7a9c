package files

// ZipHeaders gives the local header of a file "f" of that size whose body
// begins at an offset, the length of that body, and its line in the directory.
func ZipHeaders(size, at int64) (local []byte, body int64, line []byte) {
	e := largeEntry(size)
	stretches := zipShape{}.parts(nil, []*entry{e})
	return stretches[0].literal, total(stretches), zipShape{}.line(nil, e, at)
}

// ZipEnd is the end of a zip.
func ZipEnd(entries, listingAt, listing int64) []byte {
	return zipShape{}.end(entries, listingAt, listing)
}

// TarBody gives the header of a file of that size in a plain tar, and how long
// all of it is.
func TarBody(size int64) (head []byte, length int64) {
	stretches := tarShape{}.parts(nil, []*entry{largeEntry(size)})
	return stretches[0].literal, total(stretches)
}

func largeEntry(size int64) *entry {
	e := &entry{path: "f", kind: file, mode: 0o644, size: size}
	for left := size; left > 0; left -= min(left, 1<<31) {
		n := uint32(min(left, 1<<31))
		e.chunks = append(e.chunks, chunk{raw: n, at: place{stored: n}})
	}
	return e
}
