package content

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"iter"
	"sort"

	"github.com/stint-dev/stint/internal/blob"
)

// A manifest object is a sequence of compressed blocks of entries, a
// compressed index of the blocks, and a trailer that says where the index lies
// and which hash it has. The index holds the hashes of the blocks.

const (
	trailerMagic = "stint-m1"
	trailerSize  = 8 + 8 + sha256.Size + len(trailerMagic)
	// tailSize is read at once from a manifest's end, which mostly catches the
	// whole index.
	tailSize = 32 << 10
	// maxIndex and maxBlock bound what a damaged manifest can make us hold.
	maxIndex = 256 << 20
	maxBlock = 256 << 20
	// logicalHead opens what the digest covers.
	logicalHead = "stint tree 1\n"
)

// index is what must be known of a manifest to read parts of it.
type index struct {
	size, files   int64 // as in Ref
	entries       int64
	archiveLength int64
	archiveCRC    uint32
	archiveRaw    int64
	packs         []string
	blocks        []block
}

// block describes a group of entries.
type block struct {
	first   string // path of its first entry
	offset  int64  // in the manifest object
	stored  int64
	sum     hash  // of the stored bytes
	archive int64 // where its parts begin in the archive
}

func (x *index) append(b []byte) []byte {
	for _, v := range []int64{x.size, x.files, x.entries, x.archiveLength, int64(x.archiveCRC), x.archiveRaw, int64(len(x.packs))} {
		b = binary.AppendUvarint(b, uint64(v))
	}
	for _, id := range x.packs {
		b = appendText(b, id)
	}
	b = binary.AppendUvarint(b, uint64(len(x.blocks)))
	for i := range x.blocks {
		k := &x.blocks[i]
		b = appendText(b, k.first)
		for _, v := range []int64{k.offset, k.stored, k.archive} {
			b = binary.AppendUvarint(b, uint64(v))
		}
		b = append(b, k.sum[:]...)
	}
	return b
}

func decodeIndex(b []byte) (*index, error) {
	r := &fields{b: b}
	number := func() int64 { return int64(r.uint(1<<63 - 1)) }
	x := &index{size: number(), files: number(), entries: number(), archiveLength: number()}
	x.archiveCRC, x.archiveRaw = uint32(r.uint(1<<32-1)), number()
	x.packs = make([]string, r.uint(uint64(len(b))))
	for i := range x.packs {
		x.packs[i] = r.text()
	}
	x.blocks = make([]block, r.uint(uint64(len(b))/sha256.Size))
	for i := range x.blocks {
		x.blocks[i] = block{first: r.text(), offset: number(), stored: number(), archive: number(), sum: r.hash()}
	}
	if len(r.b) != 0 {
		r.fail()
	}
	return x, r.err
}

// manifest reads a stored tree.
type manifest struct {
	lib    *Library
	org    string
	digest string
	key    string
	tail   []byte // the last bytes of the object
	tailAt int64  // where they begin
	index  *index
}

// manifest opens the tree with the digest. A missing one is blob.ErrNotFound.
func (l *Library) manifest(ctx context.Context, org, digest string) (*manifest, error) {
	if err := checkOrg(org); err != nil {
		return nil, err
	}
	if !isDigest(digest) {
		return nil, fmt.Errorf("the digest of a tree is 64 hexadecimal digits: %w", blob.ErrNotFound)
	}
	m := &manifest{lib: l, org: org, digest: digest, key: manifestKey(org, digest)}
	info, err := l.blobs.Stat(ctx, m.key)
	if err != nil {
		return nil, fmt.Errorf("opening a manifest: %w", err)
	}
	if err := m.open(ctx, info.Size); err != nil {
		return nil, fmt.Errorf("opening the manifest %s: %w", digest, err)
	}
	return m, nil
}

func (m *manifest) open(ctx context.Context, size int64) error {
	m.tailAt = max(0, size-tailSize)
	var err error
	if m.tail, err = m.fetch(ctx, m.tailAt, size-m.tailAt); err != nil {
		return err
	}
	if len(m.tail) < trailerSize {
		return errDamaged
	}
	r := &fields{b: m.tail[len(m.tail)-trailerSize:]}
	offset := int64(binary.LittleEndian.Uint64(r.take(8)))
	stored := int64(binary.LittleEndian.Uint64(r.take(8)))
	sum := r.hash()
	if string(r.b) != trailerMagic || stored < 0 || stored > maxIndex || offset < 0 || offset+stored != size-int64(trailerSize) {
		return errDamaged
	}
	b, err := m.plain(ctx, offset, stored, sum)
	if err != nil {
		return err
	}
	m.index, err = decodeIndex(b)
	return err
}

// plain reads, checks and expands a compressed piece of the object.
func (m *manifest) plain(ctx context.Context, offset, n int64, sum hash) ([]byte, error) {
	if n < 0 || n > maxBlock {
		return nil, errDamaged
	}
	var b []byte
	if offset >= m.tailAt && offset-m.tailAt+n <= int64(len(m.tail)) {
		b = m.tail[offset-m.tailAt:][:n]
	} else {
		var err error
		if b, err = m.fetch(ctx, offset, n); err != nil {
			return nil, err
		}
	}
	if hash(sha256.Sum256(b)) != sum {
		return nil, errDamaged
	}
	plain, err := m.lib.zstdIn.DecodeAll(b, nil)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errDamaged, err)
	}
	return plain, nil
}

func (m *manifest) fetch(ctx context.Context, offset, n int64) ([]byte, error) {
	r, err := m.lib.blobs.Get(ctx, m.key, offset, n)
	if err != nil {
		return nil, err
	}
	b := make([]byte, n)
	if _, err = io.ReadFull(r, b); ended(err) {
		err = errDamaged
	}
	return b, errors.Join(err, r.Close())
}

func ended(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) }

// block reads the entries of block i.
func (m *manifest) block(ctx context.Context, i int) ([]*entry, error) {
	k := &m.index.blocks[i]
	b, err := m.plain(ctx, k.offset, k.stored, k.sum)
	if err != nil {
		return nil, fmt.Errorf("reading the manifest %s: %w", m.digest, err)
	}
	var entries []*entry
	for r := (&fields{b: b}); len(r.b) > 0; {
		e, err := decodeEntry(r)
		if err != nil {
			return nil, fmt.Errorf("reading the manifest %s: %w", m.digest, err)
		}
		for j := range e.chunks {
			if int(e.chunks[j].at.pack) >= len(m.index.packs) {
				return nil, fmt.Errorf("reading the manifest %s: %w", m.digest, errDamaged)
			}
		}
		entries = append(entries, e)
	}
	return entries, nil
}

// from walks the entries that follow path, in path order; all for "".
func (m *manifest) from(ctx context.Context, path string) iter.Seq2[*entry, error] {
	return func(yield func(*entry, error) bool) {
		for i := m.blockOf(path); i < len(m.index.blocks); i++ {
			entries, err := m.block(ctx, i)
			if err != nil {
				yield(nil, err)
				return
			}
			for _, e := range entries {
				if comparePaths(e.path, path) > 0 && !yield(e, nil) {
					return
				}
			}
		}
	}
}

// blockOf gives the block that holds path, if any does.
func (m *manifest) blockOf(path string) int {
	i := sort.Search(len(m.index.blocks), func(i int) bool {
		return comparePaths(m.index.blocks[i].first, path) > 0
	})
	return max(0, i-1)
}

// find gives the entry at path, or nil.
func (m *manifest) find(ctx context.Context, path string) (*entry, error) {
	if len(m.index.blocks) == 0 {
		return nil, nil
	}
	entries, err := m.block(ctx, m.blockOf(path))
	if err != nil {
		return nil, err
	}
	i := sort.Search(len(entries), func(i int) bool { return comparePaths(entries[i].path, path) >= 0 })
	if i == len(entries) || entries[i].path != path {
		return nil, nil
	}
	return entries[i], nil
}

// entries walks the whole tree and checks that it has the digest: the error
// comes at the end.
func (m *manifest) entries(ctx context.Context) iter.Seq2[*entry, error] {
	return func(yield func(*entry, error) bool) {
		sum := sha256.New()
		sum.Write([]byte(logicalHead))
		var b []byte
		for e, err := range m.from(ctx, "") {
			if err == nil {
				b = e.appendLogical(b[:0])
				sum.Write(b)
			}
			if !yield(e, err) {
				return
			}
		}
		if hex.EncodeToString(sum.Sum(nil)) != m.digest {
			yield(nil, fmt.Errorf("reading the manifest %s: %w: it holds another tree", m.digest, errDamaged))
		}
	}
}
