package archive

import (
	"encoding/binary"
	"hash/crc32"
	"math"
	"time"
	"unicode/utf8"

	"github.com/stint-dev/stint/internal/files/format"
)

// zipShape is a zip. The data of a file that is not empty are its stored segments
// followed by an empty final deflate block, so nothing is compressed again.
type zipShape struct{}

const (
	zipLocal     = 0x04034b50
	zipCentral   = 0x02014b50
	zipEnd       = 0x06054b50
	zip64End     = 0x06064b50
	zip64Locator = 0x07064b50

	zipUnix      = 3 << 8 // made on Unix: the high 16 bits of the external attributes are the mode
	zipPlain     = 20     // version needed to extract folders and deflated files
	zipLarge     = 45     // version needed to extract entries with 64-bit sizes
	zipUTF8      = 1 << 11
	zipDeflate   = 8
	zip64Extra   = 0x0001
	zipTimeExtra = 0x5455
	zipTimeSize  = 4 + 1 + 4
	zipIsFolder  = 0x10 // MS-DOS attribute

	unixFile    = 0o100000
	unixFolder  = 0o040000
	unixSymlink = 0o120000

	max16 = math.MaxUint16
	max32 = math.MaxUint32
)

// zipItem holds the fields of an entry's local header and of its record in the
// central directory.
type zipItem struct {
	name   string
	method uint16
	crc    uint32
	stored int64 // bytes in the zip
	raw    int64 // bytes of content
	mode   uint32
	sec    int64
}

func zipItemOf(e *format.Entry) zipItem {
	z := zipItem{name: e.Path, mode: unixFile | uint32(e.Mode), sec: e.Sec}
	switch {
	case e.Kind == format.Folder:
		z.name, z.mode = e.Path+"/", unixFolder|uint32(e.Mode)
	case e.Kind == format.Symlink:
		z.mode = unixSymlink | uint32(e.Mode)
		z.raw, z.stored = int64(len(e.Target)), int64(len(e.Target))
		z.crc = crc32.ChecksumIEEE([]byte(e.Target))
	case len(e.Chunks) > 0:
		z.method, z.raw, z.stored = zipDeflate, e.Size, int64(len(format.StreamEnd))
		for i := range e.Chunks {
			c := &e.Chunks[i]
			z.stored += int64(c.Place.Length)
			z.crc = format.CombineCRC(z.crc, c.Place.CRC, int64(c.Size))
		}
	}
	return z
}

func (z *zipItem) large() bool { return z.raw >= max32 || z.stored >= max32 }

func (zipShape) parts(to []part, entries []*format.Entry) []part {
	for _, e := range entries {
		to = appendZipEntry(to, e)
	}
	return to
}

func appendZipEntry(to []part, e *format.Entry) []part {
	z := zipItemOf(e)
	head := z.local()
	if e.Kind == format.Symlink {
		head = append(head, e.Target...)
	}
	to = append(to, literalPart(head))
	for i := range e.Chunks {
		c := &e.Chunks[i]
		to = append(to, part{chunk: c, length: int64(c.Place.Length)})
	}
	if len(e.Chunks) > 0 {
		to = append(to, literalPart(format.StreamEnd))
	}
	return to
}

// local returns the header before an entry's content.
func (z *zipItem) local() []byte {
	extra := z.timeExtra(nil)
	version, stored, raw := uint16(zipPlain), uint32(z.stored), uint32(z.raw)
	if z.large() {
		version, stored, raw = zipLarge, max32, max32
		extra = little(extra, uint16(zip64Extra), uint16(16), uint64(z.raw), uint64(z.stored))
	}
	b := make([]byte, 0, 30+len(z.name)+len(extra))
	b = little(b, uint32(zipLocal), version)
	b = z.common(b, stored, raw)
	b = little(b, uint16(len(z.name)), uint16(len(extra)))
	return append(append(b, z.name...), extra...)
}

// common appends the fields that the local header and the record in the central
// directory share.
func (z *zipItem) common(b []byte, stored, raw uint32) []byte {
	clock, date := dosTime(z.sec)
	return little(b, z.flags(), z.method, clock, date, z.crc, stored, raw)
}

// flags returns zipUTF8 if the name is valid UTF-8 and not ASCII, otherwise 0.
func (z *zipItem) flags() uint16 {
	for i := range len(z.name) {
		if z.name[i] >= utf8.RuneSelf {
			if utf8.ValidString(z.name) {
				return zipUTF8
			}
			break
		}
	}
	return 0
}

// timeExtra appends the extra field with the modification time in Unix seconds. It
// omits times before 1970 and after January 2038, because some programs read the
// field as a signed number and others as an unsigned one. For such times, the zip
// only has dosTime.
func (z *zipItem) timeExtra(b []byte) []byte {
	if z.sec < 0 || z.sec > math.MaxInt32 {
		return b
	}
	return little(b, uint16(zipTimeExtra), uint16(zipTimeSize-4), uint8(1), uint32(int32(z.sec)))
}

// dosTime returns the time and the date in the MS-DOS format that every zip entry
// has: without a time zone, from 1980 to 2107, in steps of two seconds. They are in
// UTC, so that they do not depend on the machine.
func dosTime(sec int64) (clock, date uint16) {
	t := time.Unix(sec, 0).UTC()
	switch {
	case t.Year() < 1980:
		t = time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)
	case t.Year() > 2107:
		t = time.Date(2107, 12, 31, 23, 59, 58, 0, time.UTC)
	}
	clock = uint16(t.Hour()<<11 | t.Minute()<<5 | t.Second()/2)
	date = uint16((t.Year()-1980)<<9 | int(t.Month())<<5 | t.Day())
	return clock, date
}

// line returns the entry's record in the central directory.
func (zipShape) line(b []byte, e *format.Entry, at int64) []byte {
	z := zipItemOf(e)
	extra := z.timeExtra(nil)
	version, stored, raw, offset := uint16(zipPlain), uint32(z.stored), uint32(z.raw), uint32(at)
	if z.large() || at >= max32 {
		version, stored, raw, offset = zipLarge, max32, max32, max32
		extra = little(extra, uint16(zip64Extra), uint16(24), uint64(z.raw), uint64(z.stored), uint64(at))
	}
	attributes := z.mode << 16
	if e.Kind == format.Folder {
		attributes |= zipIsFolder
	}
	b = little(b, uint32(zipCentral), zipUnix|version, version)
	b = z.common(b, stored, raw)
	b = little(b, uint16(len(z.name)), uint16(len(extra)), uint16(0), uint16(0), uint16(0), attributes, offset)
	return append(append(b, z.name...), extra...)
}

// end returns the end records of the central directory, which include 64-bit
// numbers if needed. listingAt and listing are the offset and the size in bytes of
// the directory.
func (zipShape) end(entries, listingAt, listing int64) []byte {
	var b []byte
	count, size, offset := uint16(min(entries, max16)), uint32(min(listing, max32)), uint32(min(listingAt, max32))
	if count == max16 || size == max32 || offset == max32 {
		b = little(b, uint32(zip64End), uint64(44), uint16(zipUnix|zipLarge), uint16(zipLarge), uint32(0), uint32(0),
			uint64(entries), uint64(entries), uint64(listing), uint64(listingAt))
		b = little(b, uint32(zip64Locator), uint32(0), uint64(listingAt+listing), uint32(1))
	}
	return little(b, uint32(zipEnd), uint16(0), uint16(0), count, count, size, offset, uint16(0))
}

// little appends numbers of fixed size in little-endian order.
func little(b []byte, numbers ...any) []byte {
	for _, n := range numbers {
		var err error
		if b, err = binary.Append(b, binary.LittleEndian, n); err != nil {
			panic("files: " + err.Error()) // a number without a fixed size
		}
	}
	return b
}
