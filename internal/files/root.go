package files

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"

	"github.com/klauspost/compress/zstd"
)

// A root is the object that names a tree: a magic word, the hash of what
// follows, and, compressed, the packs that the tree rests in and its pages.

const (
	rootMagic = "stint-r2"
	rootHead  = len(rootMagic) + sha256.Size
	// maxRoot bounds what a damaged root can make us hold, compressed and
	// expanded. What is written stays below half of it: see Limits.RootBytes.
	maxRoot = 64 << 20
	// logicalHead opens what the digest covers.
	logicalHead = "stint tree 2\n"
)

// root is what must be known of a tree to read parts of it.
type root struct {
	packs []string
	pages []page
	// What follows are sums over the pages.
	entries, files, size int64
	archive              int64 // bytes of the pages' parts of the archive
}

// sum adds the pages up.
func (x *root) sum() {
	for i := range x.pages {
		p := &x.pages[i]
		x.entries += p.entries
		x.files += p.files
		x.size += p.size
		x.archive += p.archive.length
	}
}

// digest names the tree: it covers its entries, by way of the pages' hashes.
func (x *root) digest() string {
	h := sha256.New()
	h.Write([]byte(logicalHead))
	for i := range x.pages {
		h.Write(x.pages[i].logical[:])
	}
	var b []byte
	for _, v := range []int64{int64(len(x.pages)), x.entries, x.files, x.size} {
		b = binary.LittleEndian.AppendUint64(b, uint64(v))
	}
	h.Write(b)
	return hex.EncodeToString(h.Sum(nil))
}

// tar measures the whole tar inside the archive.
func (x *root) tar() measure {
	var m measure
	for i := range x.pages {
		m.join(x.pages[i].archive)
	}
	m.add(archiveEnd)
	return m
}

// encode gives the object.
func (x *root) encode(z *zstd.Encoder) []byte {
	b := x.appendBody(nil)
	object := z.EncodeAll(b, make([]byte, rootHead, rootHead+len(b)/2))
	sum := sha256.Sum256(object[rootHead:])
	copy(object, rootMagic)
	copy(object[len(rootMagic):], sum[:])
	return object
}

func (x *root) appendBody(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(len(x.packs)))
	for _, id := range x.packs {
		b = appendText(b, id)
	}
	b = binary.AppendUvarint(b, uint64(len(x.pages)))
	for i := range x.pages {
		b = x.pages[i].append(b)
	}
	return b
}

// decodeRoot reads an object.
func decodeRoot(object []byte, z *zstd.Decoder) (*root, error) {
	head := &decoder{b: object}
	magic, sum := head.take(uint64(len(rootMagic))), head.hash()
	if string(magic) != rootMagic || head.err != nil || hash(sha256.Sum256(head.b)) != sum {
		return nil, errDamaged
	}
	b, err := z.DecodeAll(head.b, nil)
	if err != nil {
		return nil, damaged(err)
	}
	return decodeRootBody(b)
}

func decodeRootBody(b []byte) (*root, error) {
	r := &decoder{b: b}
	x := &root{}
	for n := r.uint(uint64(len(b))); n > 0 && r.err == nil; n-- {
		x.packs = append(x.packs, r.text())
	}
	for n := r.uint(uint64(len(b)) / sha256.Size); n > 0 && r.err == nil; n-- {
		x.pages = append(x.pages, decodePage(r, len(x.packs)))
	}
	if len(r.b) != 0 {
		r.fail()
	}
	x.sum()
	return x, r.err
}
