package files

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/stint-dev/stint"
)

type kind byte

const (
	file kind = 1 + iota
	folder
	symlink
)

func (k kind) String() string {
	switch k {
	case folder:
		return "dir"
	case symlink:
		return "symlink"
	default:
		return "file"
	}
}

// hash is a SHA-256.
type hash [sha256.Size]byte

var emptyHash = hash(sha256.Sum256(nil))

// entry is one line of a manifest.
type entry struct {
	path   string // relative, slash-separated, clean; any bytes but NUL
	kind   kind
	mode   uint16 // permission bits
	sec    int64  // modification time: Unix seconds, which may be negative,
	nsec   int32  // and nanoseconds within them
	size   int64
	sum    hash // of the whole content
	chunks []chunk
	target string
}

// chunk is a piece of a file's content.
type chunk struct {
	hash hash
	raw  uint32 // bytes of content
	at   place
}

// place is where a chunk's segment rests.
type place struct {
	pack   string // its ID; the places of a page share the string
	offset uint32 // bytes from the pack's start
	stored uint32 // bytes of the segment
	crc    uint32 // CRC-32 (IEEE) of the content
}

// The years that the API can write bound modification times.
var (
	firstSecond = time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC).Unix()
	lastSecond  = time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC).Unix()
)

func (e *entry) time() time.Time { return time.Unix(e.sec, int64(e.nsec)) }

func (e *entry) setTime(t time.Time) { e.sec, e.nsec = t.Unix(), int32(t.Nanosecond()) }

// public is the entry as the API shows it.
func (e *entry) public() stint.FileEntry {
	f := stint.FileEntry{
		Path: e.path, Kind: e.kind.String(), Mode: fmt.Sprintf("%04o", e.mode),
		Size: e.size, Target: e.target, ModifiedAt: stint.TimeOf(e.time()),
	}
	if e.kind == file {
		f.SHA256 = hex.EncodeToString(e.sum[:])
	}
	return f
}

// same tells whether two entries of one path hold the same: kind, mode,
// content or target.
func (e *entry) same(o *entry) bool {
	return e.kind == o.kind && e.mode == o.mode && e.size == o.size && e.sum == o.sum && e.target == o.target
}

// comparePaths orders paths as a walk meets them: a slash sorts before every
// other byte, so a folder's content follows it directly.
func comparePaths(a, b string) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] == b[i] {
			continue
		}
		if b[i] == '/' || a[i] != '/' && a[i] > b[i] {
			return 1
		}
		return -1
	}
	return len(a) - len(b)
}

// isUnder tells whether path lies somewhere below dir.
func isUnder(path, dir string) bool {
	return len(path) > len(dir) && path[len(dir)] == '/' && strings.HasPrefix(path, dir)
}

// appendLogical adds what the digest of a tree covers.
func (e *entry) appendLogical(b []byte) []byte {
	b = append(b, byte(e.kind))
	b = appendText(b, e.path)
	b = binary.AppendUvarint(b, uint64(e.mode))
	b = binary.AppendVarint(b, e.sec)
	b = binary.AppendUvarint(b, uint64(e.nsec))
	switch e.kind {
	case symlink:
		b = appendText(b, e.target)
	case file:
		b = binary.AppendUvarint(b, uint64(e.size))
		b = append(b, e.sum[:]...)
		b = binary.AppendUvarint(b, uint64(len(e.chunks)))
		for i := range e.chunks {
			b = append(b, e.chunks[i].hash[:]...)
			b = binary.AppendUvarint(b, uint64(e.chunks[i].raw))
		}
	}
	return b
}

// appendStored adds the entry with the places of its chunks, as decodeEntry
// reads it. Packs are named by their numbers in t.
func (e *entry) appendStored(b []byte, t *packTable) []byte {
	b = e.appendLogical(b)
	for i := range e.chunks {
		at := &e.chunks[i].at
		b = binary.AppendUvarint(b, uint64(t.number(at.pack)))
		b = binary.AppendUvarint(b, uint64(at.offset))
		b = binary.AppendUvarint(b, uint64(at.stored))
		b = binary.LittleEndian.AppendUint32(b, at.crc)
	}
	return b
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

var errDamaged = errors.New("the stored manifest is damaged")

// decodeEntry reads one entry from r, whose places name packs by their numbers
// in packs.
func decodeEntry(r *decoder, packs []string) (*entry, error) {
	e := &entry{kind: kind(r.byte()), path: r.text()}
	e.mode = uint16(r.uint(0o777))
	e.sec = r.int()
	e.nsec = int32(r.uint(999_999_999))
	switch e.kind {
	case folder:
	case symlink:
		e.target = r.text()
	case file:
		e.decodeContent(r, packs)
	default:
		r.fail()
	}
	if e.path == "" {
		r.fail()
	}
	return e, r.err
}

func (e *entry) decodeContent(r *decoder, packs []string) {
	e.size = int64(r.uint(1<<63 - 1))
	e.sum = r.hash()
	n := r.uint(uint64(len(r.b)) / sha256.Size)
	if n > 0 {
		e.chunks = make([]chunk, n)
	}
	var size int64
	for i := range e.chunks {
		e.chunks[i].hash = r.hash()
		e.chunks[i].raw = uint32(r.uint(maxChunk))
		size += int64(e.chunks[i].raw)
	}
	for i := range e.chunks {
		e.chunks[i].at = place{
			pack: r.pack(packs), offset: uint32(r.uint(maxPack)),
			stored: uint32(r.uint(maxSegment)), crc: r.uint32(),
		}
	}
	if size != e.size {
		r.fail()
	}
}

// packTable numbers the packs that a group of places names, from 0 in the
// order of their first use.
type packTable struct {
	ids     []string
	numbers map[string]uint32
}

func (t *packTable) number(id string) uint32 {
	if n, ok := t.numbers[id]; ok {
		return n
	}
	if t.numbers == nil {
		t.numbers = map[string]uint32{}
	}
	n := uint32(len(t.ids))
	t.ids = append(t.ids, id)
	t.numbers[id] = n
	return n
}

func (t *packTable) reset() {
	t.ids = t.ids[:0]
	clear(t.numbers)
}

// fields reads the parts of an encoding; after the first fault it gives zeros.
type decoder struct {
	b   []byte
	err error
}

func (r *decoder) fail() {
	r.err = errDamaged
	r.b = nil
}

func (r *decoder) take(n uint64) []byte {
	if n > uint64(len(r.b)) {
		r.fail()
		return nil
	}
	taken := r.b[:n]
	r.b = r.b[n:]
	return taken
}

func (r *decoder) byte() byte {
	if b := r.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *decoder) uint(limit uint64) uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 || v > limit {
		r.fail()
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *decoder) int() int64 {
	v, n := binary.Varint(r.b)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *decoder) uint32() uint32 {
	if b := r.take(4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

func (r *decoder) hash() (h hash) {
	copy(h[:], r.take(sha256.Size))
	return h
}

// pack reads the number of a pack in packs.
func (r *decoder) pack(packs []string) string {
	n := r.uint(1<<32 - 1)
	if n >= uint64(len(packs)) {
		r.fail()
		return ""
	}
	return packs[n]
}

func (r *decoder) text() string { return string(r.take(r.uint(1 << 20))) }

// damaged says why something stored cannot be understood.
func damaged(err error) error { return fmt.Errorf("%w: %w", errDamaged, err) }
