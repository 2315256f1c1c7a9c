package format

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

const (
	tarBlock  = 512
	nameField = 100       // bytes of a name or target that fit into a plain header
	octalMax  = 1<<33 - 1 // the largest number of an 11-digit field
	// TarEnd is the size in bytes of the empty blocks that end a tar.
	TarEnd = 2 * tarBlock
)

// AppendTarHeader appends the tar header of e: a plain POSIX header, preceded by
// an extended (PAX) header if fields do not fit. Owner and group are 0.
func AppendTarHeader(b []byte, e *Entry) []byte {
	h := header{name: e.Path, mode: e.Mode, size: e.Size, mtime: e.Sec, typeflag: '0', link: e.Target}
	switch e.Kind {
	case Folder:
		h.name, h.typeflag = e.Path+"/", '5'
	case Symlink:
		h.typeflag = '2'
	}
	if records := extendedRecords(e, h.name); records != "" {
		x := header{name: "pax_header", mode: 0o644, size: int64(len(records)), typeflag: 'x'}
		b = append(x.append(b), records...)
		b = append(b, make([]byte, TarPadding(int64(len(records))))...)
	}
	return h.append(b)
}

// TarPadding returns the number of zeros between n bytes of content and the end of
// their block.
func TarPadding(n int64) int64 { return -n & (tarBlock - 1) }

// extendedRecords returns the records for values that do not fit into a plain
// header, in a fixed order.
func extendedRecords(e *Entry, name string) string {
	var records strings.Builder
	if needsRecord(name) && !utf8.ValidString(name) || needsRecord(e.Target) && !utf8.ValidString(e.Target) {
		writeRecord(&records, "hdrcharset", "BINARY")
	}
	if needsRecord(name) {
		writeRecord(&records, "path", name)
	}
	if needsRecord(e.Target) {
		writeRecord(&records, "linkpath", e.Target)
	}
	if e.Size > octalMax {
		writeRecord(&records, "size", strconv.FormatInt(e.Size, 10))
	}
	if e.Nsec != 0 || e.Sec < 0 || e.Sec > octalMax {
		writeRecord(&records, "mtime", decimalTime(e.Sec, e.Nsec))
	}
	return records.String()
}

// needsRecord reports whether a name needs an extended record: the name is too long
// for its field, or it is valid UTF-8 but not ASCII (only a record can declare
// UTF-8). Short names that are not valid UTF-8 are kept in the field.
func needsRecord(name string) bool {
	if len(name) > nameField {
		return true
	}
	for i := range len(name) {
		if name[i] >= utf8.RuneSelf {
			return utf8.ValidString(name)
		}
	}
	return false
}

// writeRecord adds "<length of the record> key=value\n".
func writeRecord(b *strings.Builder, key, value string) {
	rest := " " + key + "=" + value + "\n"
	n := len(rest)
	for n != len(rest)+len(strconv.Itoa(n)) {
		n = len(rest) + len(strconv.Itoa(n))
	}
	b.WriteString(strconv.Itoa(n) + rest)
}

// decimalTime formats seconds with a fraction, "-0.5" for half a second before the
// epoch.
func decimalTime(sec int64, nsec int32) string {
	sign := ""
	if sec < 0 {
		sign, sec = "-", -sec
		if nsec != 0 {
			sec, nsec = sec-1, 1e9-nsec
		}
	}
	if nsec == 0 {
		return sign + strconv.FormatInt(sec, 10)
	}
	return sign + strings.TrimRight(fmt.Sprintf("%d.%09d", sec, nsec), "0")
}

// header is a plain POSIX header.
type header struct {
	name, link  string
	mode        uint16
	size, mtime int64
	typeflag    byte
}

func (h *header) append(out []byte) []byte {
	var b [tarBlock]byte
	copy(b[:nameField], h.name)
	octal(b[100:108], int64(h.mode))
	octal(b[108:116], 0) // owner
	octal(b[116:124], 0) // group
	octal(b[124:136], h.size)
	octal(b[136:148], h.mtime)
	b[156] = h.typeflag
	copy(b[157:257], h.link)
	copy(b[257:], "ustar\x0000")
	copy(b[148:156], "        ")
	sum := int64(0)
	for _, c := range b {
		sum += int64(c)
	}
	octal(b[148:155], sum)
	return append(out, b[:]...)
}

// octal fills a field with the octal digits of v and a final NUL. If v does not fit,
// the field is 0, and an extended record holds the value.
func octal(field []byte, v int64) {
	digits := len(field) - 1
	if v < 0 || v>>(3*digits) != 0 {
		v = 0
	}
	for i := digits - 1; i >= 0; i-- {
		field[i] = '0' + byte(v&7)
		v >>= 3
	}
	field[digits] = 0
}
