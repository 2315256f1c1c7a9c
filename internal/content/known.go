package content

import (
	"crypto/sha256"
	"encoding/binary"
	"sync"
)

// known tells which chunks a commit need not store: those of the parent
// version and those it has stored itself. A chunk costs some 20 bytes of
// memory; its full hash and place are spooled. It is safe for concurrent use.
type known struct {
	mu      sync.Mutex        // guards what follows
	numbers map[uint64]uint32 // first 8 bytes of the hash → number of the record
	records *spool
}

// knownRecord is a hash and the four numbers of its place.
const knownRecord = sha256.Size + 4*4

func newKnown(dir string) *known {
	return &known{numbers: map[uint64]uint32{}, records: newSpool(dir)}
}

// close gives memory and space back. It may be called again.
func (k *known) close() error {
	k.numbers = nil
	return k.records.Close()
}

// find gives the place of a chunk. Two hashes that begin alike hide one
// another, which costs space and no more.
func (k *known) find(h hash) (at place, ok bool, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	number, ok := k.numbers[binary.LittleEndian.Uint64(h[:])]
	if !ok {
		return place{}, false, nil
	}
	var b [knownRecord]byte
	if _, err := k.records.ReadAt(b[:], int64(number)*knownRecord); err != nil {
		return place{}, false, err
	}
	r := fields{b: b[:]}
	if r.hash() != h {
		return place{}, false, nil
	}
	return place{pack: r.uint32(), offset: r.uint32(), stored: r.uint32(), crc: r.uint32()}, true, nil
}

func (k *known) add(h hash, at place) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	b := make([]byte, 0, knownRecord)
	b = append(b, h[:]...)
	for _, v := range []uint32{at.pack, at.offset, at.stored, at.crc} {
		b = binary.LittleEndian.AppendUint32(b, v)
	}
	k.numbers[binary.LittleEndian.Uint64(h[:])] = uint32(k.records.length() / knownRecord)
	_, err := k.records.Write(b)
	return err
}
