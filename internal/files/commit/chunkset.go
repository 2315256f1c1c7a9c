package commit

import (
	"crypto/sha256"
	"encoding/binary"
	"sync"

	"github.com/stint-dev/stint/internal/files/format"
	"github.com/stint-dev/stint/internal/files/spool"
)

// chunkSet holds the places of chunks by hash: of the chunks of the parent version
// and of those that the commit has stored. It takes about 20 bytes of memory per
// chunk; complete hashes and places are in a temporary file. It is safe for
// concurrent use.
type chunkSet struct {
	mu      sync.Mutex        // guards the fields below
	last    map[uint32]uint32 // by partOf a hash: number of the last record, counted from 1
	before  []uint32          // for each record: number of the previous record with the same partOf, or 0
	records *spool.Spool
	packs   format.PackTable // numbers of packs in the records
}

const (
	// chunkSetRecord is the size of a hash and the four numbers of its place.
	chunkSetRecord = sha256.Size + 4*4
	// maxChunkSet is the maximum number of chunks, which bounds the memory. Further
	// chunks are not added, so equal chunks may be stored again.
	maxChunkSet = 3 << 20
)

func newChunkSet(dir string) *chunkSet {
	return &chunkSet{last: map[uint32]uint32{}, records: spool.New(dir)}
}

// Close frees memory and disk space. It may be called again.
func (k *chunkSet) Close() error {
	k.last, k.before, k.packs = nil, nil, format.PackTable{}
	return k.records.Close()
}

// find returns the place of a chunk. If the set lacks the chunk, ok is false.
func (k *chunkSet) find(h format.Hash) (at format.Place, ok bool, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.lookUp(h)
}

func (k *chunkSet) lookUp(h format.Hash) (at format.Place, ok bool, err error) {
	for n := k.last[partOf(h)]; n > 0; n = k.before[n-1] {
		var b [chunkSetRecord]byte
		if _, err := k.records.ReadAt(b[:], int64(n-1)*chunkSetRecord); err != nil {
			return format.Place{}, false, err
		}
		r := format.Decoder{B: b[:]}
		if r.Hash() == h {
			packID := k.packs.IDs[r.Uint32()]
			return format.Place{Pack: packID, Offset: r.Uint32(), Length: r.Uint32(), CRC: r.Uint32()}, true, nil
		}
	}
	return format.Place{}, false, nil
}

// partOf returns the first four bytes of a hash, which are the key in memory.
func partOf(h format.Hash) uint32 { return binary.LittleEndian.Uint32(h[:]) }

// add adds a chunk, unless the set already has an equal chunk or is full.
func (k *chunkSet) add(h format.Hash, at format.Place) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, ok, err := k.lookUp(h); ok || err != nil || len(k.before) == maxChunkSet {
		return err
	}
	b := make([]byte, 0, chunkSetRecord)
	b = append(b, h[:]...)
	for _, v := range []uint32{k.packs.Number(at.Pack), at.Offset, at.Length, at.CRC} {
		b = binary.LittleEndian.AppendUint32(b, v)
	}
	if _, err := k.records.Write(b); err != nil {
		return err
	}
	k.before = append(k.before, k.last[partOf(h)])
	k.last[partOf(h)] = uint32(len(k.before))
	return nil
}
