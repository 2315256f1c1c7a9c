package format

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"

	"github.com/klauspost/compress/zstd"
)

// A root is the object that describes a tree. It consists of a magic number, the
// SHA-256 of the remaining bytes, and a zstd frame with the lists of packs and pages.

const (
	rootMagic = "stint-r2"
	// RootHead is the size in bytes of the part of a root before the zstd frame.
	RootHead = len(rootMagic) + sha256.Size
	// MaxRoot is the maximum size in bytes of a root, both compressed and expanded.
	// It bounds the memory that a damaged root can cause to be allocated. Written
	// roots stay below half of MaxRoot: see Limits.RootBytes.
	MaxRoot = 64 << 20
	// logicalHead is the beginning of the bytes that the digest covers.
	logicalHead = "stint tree 2\n"
)

// Root lists the packs and pages of a tree.
type Root struct {
	Packs []string // IDs
	Pages []Page
	// Sums over the pages, see Sum.
	entries, Files, Size int64
	archive              int64 // bytes of the pages' parts of the tar.gz
}

// Sum computes the sums over the pages. It must be called once.
func (x *Root) Sum() {
	for i := range x.Pages {
		p := &x.Pages[i]
		x.entries += p.Entries
		x.Files += p.Files
		x.Size += p.Size
		x.archive += p.Archive.Length
	}
}

// Digest returns the digest of the tree, in hexadecimal. It covers the entries
// through the logical hashes of the pages.
func (x *Root) Digest() string {
	h := sha256.New()
	h.Write([]byte(logicalHead))
	for i := range x.Pages {
		h.Write(x.Pages[i].Logical[:])
	}
	var b []byte
	for _, v := range []int64{int64(len(x.Pages)), x.entries, x.Files, x.Size} {
		b = binary.LittleEndian.AppendUint64(b, uint64(v))
	}
	h.Write(b)
	return hex.EncodeToString(h.Sum(nil))
}

// Tar returns the sum of all pages and ArchiveEnd, which are the whole tar in the
// tar.gz.
func (x *Root) Tar() ArchiveSum {
	var m ArchiveSum
	for i := range x.Pages {
		m.join(x.Pages[i].Archive)
	}
	m.Add(ArchiveEnd)
	return m
}

// Encode returns the root object, compressed by z.
func (x *Root) Encode(z *zstd.Encoder) []byte {
	b := x.AppendBody(nil)
	object := z.EncodeAll(b, make([]byte, RootHead, RootHead+len(b)/2))
	sum := sha256.Sum256(object[RootHead:])
	copy(object, rootMagic)
	copy(object[len(rootMagic):], sum[:])
	return object
}

// AppendBody appends the lists of packs and pages in uncompressed form.
func (x *Root) AppendBody(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(len(x.Packs)))
	for _, id := range x.Packs {
		b = appendText(b, id)
	}
	b = binary.AppendUvarint(b, uint64(len(x.Pages)))
	for i := range x.Pages {
		b = x.Pages[i].append(b)
	}
	return b
}

// DecodeRoot decodes a root object. If the object is damaged, the error wraps
// ErrDamaged.
func DecodeRoot(object []byte, z *zstd.Decoder) (*Root, error) {
	head := &Decoder{B: object}
	magic, sum := head.take(uint64(len(rootMagic))), head.Hash()
	if string(magic) != rootMagic || head.err != nil || Hash(sha256.Sum256(head.B)) != sum {
		return nil, ErrDamaged
	}
	b, err := z.DecodeAll(head.B, nil)
	if err != nil {
		return nil, Damaged(err)
	}
	return DecodeRootBody(b)
}

// DecodeRootBody decodes the lists that AppendBody encoded.
func DecodeRootBody(b []byte) (*Root, error) {
	r := &Decoder{B: b}
	x := &Root{}
	for n := r.uint(uint64(len(b))); n > 0 && r.err == nil; n-- {
		x.Packs = append(x.Packs, r.text())
	}
	for n := r.uint(uint64(len(b)) / sha256.Size); n > 0 && r.err == nil; n-- {
		x.Pages = append(x.Pages, decodePage(r, len(x.Packs)))
	}
	if len(r.B) != 0 {
		r.fail()
	}
	x.Sum()
	return x, r.err
}
