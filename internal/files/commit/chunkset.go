package commit

import (
	"bufio"
	"crypto/sha256"
	"encoding/binary"
	"io"
	"sync"

	"github.com/stint-dev/stint/internal/files/format"
	"github.com/stint-dev/stint/internal/files/spool"
)

// chunkSet holds the chunks of the parent version and those that the commit has
// stored. It takes about 10 bytes of memory per chunk; hashes and places are
// spooled. It is safe for concurrent use.
type chunkSet struct {
	mu      sync.Mutex // guards the fields below
	slots   []slot     // open addressing, at most three quarters used
	count   int        // of records
	records *spool.Spool
	packs   format.PackTable // that the records refer to
}

// slot refers to a record. Its tag avoids reading most records of other hashes.
type slot struct {
	number [4]byte // of the record, from 1; 0 if free
	tag    byte
}

const (
	// chunkSetRecord is the size of a hash and the four numbers of its place.
	chunkSetRecord = sha256.Size + 4*4
	// maxChunkSet bounds the memory: further chunks are stored again.
	maxChunkSet = 3 << 20
	firstSlots  = 1 << 10
)

func newChunkSet(dir string) *chunkSet {
	return &chunkSet{slots: make([]slot, firstSlots), records: spool.New(dir)}
}

// Close frees memory and disk space. It may be called again.
func (k *chunkSet) Close() error {
	k.slots, k.packs = nil, format.PackTable{}
	return k.records.Close()
}

// find returns the place of a chunk.
func (k *chunkSet) find(h format.Hash) (at format.Place, ok bool, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.lookUp(h)
}

func (k *chunkSet) lookUp(h format.Hash) (at format.Place, ok bool, err error) {
	for i := k.home(h); ; i = (i + 1) % len(k.slots) {
		s := &k.slots[i]
		number := binary.LittleEndian.Uint32(s.number[:])
		if number == 0 {
			return format.Place{}, false, nil
		}
		if s.tag != tagOf(h) {
			continue
		}
		var b [chunkSetRecord]byte
		if _, err := k.records.ReadAt(b[:], int64(number-1)*chunkSetRecord); err != nil {
			return format.Place{}, false, err
		}
		r := format.Decoder{B: b[:]}
		if r.Hash() == h {
			packID := k.packs.IDs[r.Uint32()]
			return format.Place{Pack: packID, Offset: r.Uint32(), Length: r.Uint32(), CRC: r.Uint32()}, true, nil
		}
	}
}

func (k *chunkSet) home(h format.Hash) int {
	return int(binary.LittleEndian.Uint64(h[:]) % uint64(len(k.slots)))
}

func tagOf(h format.Hash) byte { return h[8] }

// add adds a chunk. Of equal chunks the first is kept.
func (k *chunkSet) add(h format.Hash, at format.Place) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, ok, err := k.lookUp(h); ok || err != nil || k.count == maxChunkSet {
		return err
	}
	if 4*(k.count+1) > 3*len(k.slots) {
		if err := k.grow(); err != nil {
			return err
		}
	}
	b := make([]byte, 0, chunkSetRecord)
	b = append(b, h[:]...)
	for _, v := range []uint32{k.packs.Number(at.Pack), at.Offset, at.Length, at.CRC} {
		b = binary.LittleEndian.AppendUint32(b, v)
	}
	if _, err := k.records.Write(b); err != nil {
		return err
	}
	k.count++
	k.enter(h, uint32(k.count))
	return nil
}

func (k *chunkSet) enter(h format.Hash, number uint32) {
	i := k.home(h)
	for k.slots[i].number != [4]byte{} {
		i = (i + 1) % len(k.slots)
	}
	binary.LittleEndian.PutUint32(k.slots[i].number[:], number)
	k.slots[i].tag = tagOf(h)
}

// grow doubles the slots.
func (k *chunkSet) grow() error {
	n := 2 * len(k.slots)
	k.slots = nil // frees the memory before the next allocation
	k.slots = make([]slot, n)
	records := bufio.NewReaderSize(k.records.Section(0, k.records.Length()), 64<<10)
	var b [chunkSetRecord]byte
	for i := range k.count {
		if _, err := io.ReadFull(records, b[:]); err != nil {
			return err
		}
		k.enter(format.Hash(b[:sha256.Size]), uint32(i+1))
	}
	return nil
}
