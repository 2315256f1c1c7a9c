package content

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	stdhash "hash"
)

// blockTarget is the size at which a block of entries ends, before
// compression.
const blockTarget = 64 << 10

// manifestWriter makes a manifest from entries in path order. It serves one
// goroutine.
type manifestWriter struct {
	lib     *Library
	packs   *packer
	numbers map[uint32]uint32 // index of a pack in packs → in the manifest
	out     *spool
	sum     stdhash.Hash
	logical []byte
	block   []byte // the entries of the open block
	first   string // path of the first of them
	layout  layout
	total   measure // of the archive's parts so far
	began   int64   // where the open block's parts begin in the archive
	index   index
}

func newManifestWriter(l *Library, p *packer) *manifestWriter {
	w := &manifestWriter{lib: l, packs: p, numbers: map[uint32]uint32{}, out: newSpool(l.tempDir), sum: sha256.New()}
	w.sum.Write([]byte(logicalHead))
	w.layout.emit = w.total.add
	return w
}

func (w *manifestWriter) close() error { return w.out.Close() }

// add takes the next entry, whose places name packs of the packer.
func (w *manifestWriter) add(e *entry) error {
	if len(w.block) == 0 {
		w.first, w.began = e.path, w.total.length
	}
	w.logical = e.appendLogical(w.logical[:0])
	w.sum.Write(w.logical)
	for i := range e.chunks {
		e.chunks[i].at.pack = w.number(e.chunks[i].at.pack)
	}
	w.block = e.appendStored(w.block)
	w.layout.add(e)
	w.index.entries++
	if e.kind == file {
		w.index.size += e.size
		w.index.files++
	}
	if len(w.block) < blockTarget {
		return nil
	}
	return w.endBlock()
}

// number gives a pack its place in the manifest's own list.
func (w *manifestWriter) number(pack uint32) uint32 {
	n, ok := w.numbers[pack]
	if !ok {
		n = uint32(len(w.index.packs))
		w.numbers[pack] = n
		w.index.packs = append(w.index.packs, w.packs.ids[pack])
	}
	return n
}

func (w *manifestWriter) endBlock() error {
	if len(w.block) == 0 {
		return nil
	}
	w.layout.flush()
	k := block{first: w.first, offset: w.out.length(), archive: int64(len(gzipHead)) + w.began}
	b := w.lib.zstdOut.EncodeAll(w.block, nil)
	k.stored, k.sum = int64(len(b)), sha256.Sum256(b)
	w.index.blocks = append(w.index.blocks, k)
	w.block = w.block[:0]
	_, err := w.out.Write(b)
	return err
}

// finish completes the manifest in w.out.
func (w *manifestWriter) finish() (Ref, error) {
	if err := w.endBlock(); err != nil {
		return Ref{}, err
	}
	w.layout.end()
	x := &w.index
	x.archiveLength = int64(len(gzipHead)) + w.total.length + gzipTail
	x.archiveCRC, x.archiveRaw = w.total.crc, w.total.raw
	b := w.lib.zstdOut.EncodeAll(x.append(nil), nil)
	sum := sha256.Sum256(b)
	trailer := binary.LittleEndian.AppendUint64(nil, uint64(w.out.length()))
	trailer = binary.LittleEndian.AppendUint64(trailer, uint64(len(b)))
	trailer = append(append(trailer, sum[:]...), trailerMagic...)
	if _, err := w.out.Write(append(b, trailer...)); err != nil {
		return Ref{}, err
	}
	return Ref{Digest: hex.EncodeToString(w.sum.Sum(nil)), Size: x.size, Files: x.files}, nil
}
