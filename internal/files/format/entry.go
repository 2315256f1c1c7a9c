package format

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

// Kind is the kind of an entry.
type Kind byte

// Kinds of entries, as stored.
const (
	File Kind = 1 + iota
	Folder
	Symlink
)

// String returns the name of the kind in the API.
func (k Kind) String() string {
	switch k {
	case Folder:
		return "dir"
	case Symlink:
		return "symlink"
	default:
		return "file"
	}
}

// Hash is a SHA-256.
type Hash = [sha256.Size]byte

// EmptyHash is the SHA-256 of no bytes.
var EmptyHash = Hash(sha256.Sum256(nil))

// Entry is an entry of a manifest: a file, folder, or symbolic link.
type Entry struct {
	Path   string // relative, slash-separated, clean; any bytes but NUL
	Kind   Kind
	Mode   uint16 // permission bits
	Sec    int64  // modification time in Unix seconds, which may be negative,
	Nsec   int32  // plus nanoseconds
	Size   int64  // bytes of content
	SHA256 Hash   // of the whole content
	Chunks []Chunk
	Target string // of a symbolic link
}

// Chunk is a piece of a file's content.
type Chunk struct {
	Hash  Hash
	Size  uint32 // bytes of content
	Place Place
}

// Place is the location of a chunk's segment in a pack.
type Place struct {
	Pack   string // ID of the pack; the places of a page share the string
	Offset uint32 // bytes from the start of the pack
	Length uint32 // bytes of the segment
	CRC    uint32 // CRC-32 (IEEE) of the content
}

// FirstSecond and LastSecond limit modification times, in Unix seconds, to the years
// that the API can represent.
var (
	FirstSecond = time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC).Unix()
	LastSecond  = time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC).Unix()
)

// Time returns the modification time.
func (e *Entry) Time() time.Time { return time.Unix(e.Sec, int64(e.Nsec)) }

// SetTime sets the modification time.
func (e *Entry) SetTime(t time.Time) { e.Sec, e.Nsec = t.Unix(), int32(t.Nanosecond()) }

// Public returns the entry in the form of the API.
func (e *Entry) Public() stint.FileEntry {
	f := stint.FileEntry{
		Path: e.Path, Kind: e.Kind.String(), Mode: fmt.Sprintf("%04o", e.Mode),
		Size: e.Size, Target: e.Target, ModifiedAt: stint.TimeOf(e.Time()),
	}
	if e.Kind == File {
		f.SHA256 = hex.EncodeToString(e.SHA256[:])
	}
	return f
}

// Equal reports whether two entries of one path have the same kind, mode, content,
// and target.
func (e *Entry) Equal(o *Entry) bool {
	return e.Kind == o.Kind && e.Mode == o.Mode && e.Size == o.Size && e.SHA256 == o.SHA256 && e.Target == o.Target
}

// ComparePaths returns a negative number if a is before b, 0 if they are equal, and
// otherwise a positive number. Paths are in the order in which a walk visits them: a
// slash sorts before every other byte, so the content of a folder follows the folder
// directly.
func ComparePaths(a, b string) int {
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

// IsUnder reports whether path is below dir.
func IsUnder(path, dir string) bool {
	return len(path) > len(dir) && path[len(dir)] == '/' && strings.HasPrefix(path, dir)
}

// AppendLogical appends the part of the entry that the digest of a tree covers.
func (e *Entry) AppendLogical(b []byte) []byte {
	b = append(b, byte(e.Kind))
	b = appendText(b, e.Path)
	b = binary.AppendUvarint(b, uint64(e.Mode))
	b = binary.AppendVarint(b, e.Sec)
	b = binary.AppendUvarint(b, uint64(e.Nsec))
	switch e.Kind {
	case Symlink:
		b = appendText(b, e.Target)
	case File:
		b = binary.AppendUvarint(b, uint64(e.Size))
		b = append(b, e.SHA256[:]...)
		b = binary.AppendUvarint(b, uint64(len(e.Chunks)))
		for i := range e.Chunks {
			b = append(b, e.Chunks[i].Hash[:]...)
			b = binary.AppendUvarint(b, uint64(e.Chunks[i].Size))
		}
	}
	return b
}

// AppendStored appends the entry with the places of its chunks in the form that
// DecodeEntry reads. Packs are encoded as their numbers in t.
func (e *Entry) AppendStored(b []byte, t *PackTable) []byte {
	b = e.AppendLogical(b)
	for i := range e.Chunks {
		at := &e.Chunks[i].Place
		b = binary.AppendUvarint(b, uint64(t.Number(at.Pack)))
		b = binary.AppendUvarint(b, uint64(at.Offset))
		b = binary.AppendUvarint(b, uint64(at.Length))
		b = binary.LittleEndian.AppendUint32(b, at.CRC)
	}
	return b
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// ErrDamaged means that stored bytes cannot be decoded.
var ErrDamaged = errors.New("the stored manifest is damaged")

// DecodeEntry reads one entry from r. Its places refer to packs by their index in
// packs.
func DecodeEntry(r *Decoder, packs []string) (*Entry, error) {
	e := &Entry{Kind: Kind(r.byte()), Path: r.text()}
	e.Mode = uint16(r.uint(0o777))
	e.Sec = r.int()
	e.Nsec = int32(r.uint(999_999_999))
	switch e.Kind {
	case Folder:
	case Symlink:
		e.Target = r.text()
	case File:
		e.decodeContent(r, packs)
	default:
		r.fail()
	}
	if e.Path == "" {
		r.fail()
	}
	return e, r.err
}

func (e *Entry) decodeContent(r *Decoder, packs []string) {
	e.Size = int64(r.uint(1<<63 - 1))
	e.SHA256 = r.Hash()
	n := r.uint(uint64(len(r.B)) / sha256.Size)
	if n > 0 {
		e.Chunks = make([]Chunk, n)
	}
	var size int64
	for i := range e.Chunks {
		e.Chunks[i].Hash = r.Hash()
		e.Chunks[i].Size = uint32(r.uint(MaxChunk))
		size += int64(e.Chunks[i].Size)
	}
	for i := range e.Chunks {
		e.Chunks[i].Place = Place{
			Pack: r.pack(packs), Offset: uint32(r.uint(MaxPack)),
			Length: uint32(r.uint(maxSegment)), CRC: r.Uint32(),
		}
	}
	if size != e.Size {
		r.fail()
	}
}

// PackTable numbers packs from 0 in the order of their first use.
type PackTable struct {
	IDs     []string
	numbers map[string]uint32
}

// Number returns the number of a pack. On its first use, the pack gets the next
// number.
func (t *PackTable) Number(id string) uint32 {
	if n, ok := t.numbers[id]; ok {
		return n
	}
	if t.numbers == nil {
		t.numbers = map[string]uint32{}
	}
	n := uint32(len(t.IDs))
	t.IDs = append(t.IDs, id)
	t.numbers[id] = n
	return n
}

func (t *PackTable) reset() {
	t.IDs = t.IDs[:0]
	clear(t.numbers)
}

// Decoder reads the fields of an encoding. After the first error, all fields are
// zero.
type Decoder struct {
	B   []byte
	err error
}

func (r *Decoder) fail() {
	r.err = ErrDamaged
	r.B = nil
}

func (r *Decoder) take(n uint64) []byte {
	if n > uint64(len(r.B)) {
		r.fail()
		return nil
	}
	taken := r.B[:n]
	r.B = r.B[n:]
	return taken
}

func (r *Decoder) byte() byte {
	if b := r.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *Decoder) uint(limit uint64) uint64 {
	v, n := binary.Uvarint(r.B)
	if n <= 0 || v > limit {
		r.fail()
		return 0
	}
	r.B = r.B[n:]
	return v
}

func (r *Decoder) int() int64 {
	v, n := binary.Varint(r.B)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.B = r.B[n:]
	return v
}

// Uint32 reads four bytes in little-endian order.
func (r *Decoder) Uint32() uint32 {
	if b := r.take(4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

// Hash reads a hash.
func (r *Decoder) Hash() (h Hash) {
	copy(h[:], r.take(sha256.Size))
	return h
}

// pack reads an index into packs and returns the pack.
func (r *Decoder) pack(packs []string) string {
	n := r.uint(1<<32 - 1)
	if n >= uint64(len(packs)) {
		r.fail()
		return ""
	}
	return packs[n]
}

func (r *Decoder) text() string { return string(r.take(r.uint(1 << 20))) }

// Damaged returns an error that wraps ErrDamaged and err, the reason why stored bytes
// cannot be decoded.
func Damaged(err error) error { return fmt.Errorf("%w: %w", ErrDamaged, err) }
