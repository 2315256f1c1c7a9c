package index

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"slices"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
)

// A run's file consists of blocks of pack names in order, blocks of records in the
// order of their hashes, and a tail: filter, first hash of each block of records
// (8 bytes), first name of each block of names, trailer. Each block and the tail
// end with a checksum. Blocks are verified when they are read, because a run is
// too long to be read when it is opened.
const (
	blockSize  = 4096
	blockData  = blockSize - 4
	recordSize = 32 + 5*4
	perBlock   = blockData / recordSize

	trailerSize  = 8 + 8 + 4 + 4 + 8 + 4
	trailerMagic = "stintcx1"
)

var (
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
	errDamaged = errors.New("chunk index: a run is damaged")
)

type block = [blockSize]byte

var blocks = sync.Pool{New: func() any { return new(block) }}

// shape is the content of a run's trailer.
type shape struct {
	records uint64
	packs   uint32
	width   uint32 // bytes of a name, padded with zeros
	bloom   uint64 // bytes of the filter
}

func (s *shape) namesPerBlock() int { return blockData / int(s.width) }
func (s *shape) packBlocks() int {
	return (int(s.packs) + s.namesPerBlock() - 1) / s.namesPerBlock()
}
func (s *shape) recordBlocks() int { return (int(s.records) + perBlock - 1) / perBlock }
func (s *shape) tail() int64 {
	return int64(s.bloom) + int64(s.recordBlocks())*8 + int64(s.packBlocks())*int64(s.width) + trailerSize
}

func (s *shape) size() int64 {
	return int64(s.packBlocks()+s.recordBlocks())*blockSize + s.tail()
}

func (s *shape) append(b []byte) []byte {
	b = append(b, trailerMagic...)
	b = binary.LittleEndian.AppendUint64(b, s.records)
	b = binary.LittleEndian.AppendUint32(b, s.packs)
	b = binary.LittleEndian.AppendUint32(b, s.width)
	return binary.LittleEndian.AppendUint64(b, s.bloom)
}

// parseShape decodes the trailer of a file of size bytes.
func parseShape(b []byte, size int64) (shape, bool) {
	s := shape{
		records: binary.LittleEndian.Uint64(b[8:]),
		packs:   binary.LittleEndian.Uint32(b[16:]),
		width:   binary.LittleEndian.Uint32(b[20:]),
		bloom:   binary.LittleEndian.Uint64(b[24:]),
	}
	bounded := s.width > 0 && s.width <= maxName && s.records <= uint64(size)/recordSize && int64(s.packs) <= size &&
		s.bloom > 0 && s.bloom%filterLine == 0 && s.bloom <= uint64(size)
	return s, string(b[:8]) == trailerMagic && bounded && s.size() == size
}

// run is an open run. Only dead changes.
type run struct {
	shape
	name   string
	file   *os.File
	sum    uint32 // checksum of the tail
	filter filter
	fences []uint64                 // the first hash of each block of records
	firsts []string                 // the first name of each block of names
	dead   map[uint32]string        // dropped packs, guarded by the shard's lock
	held   atomic.Pointer[[]string] // the names if there are few; nil before their first use
}

// holdMax is how many pack names of a run are kept in memory.
const holdMax = 2048

// openRun opens the file at path. The error is errDamaged unless its tail has the
// checksum.
func openRun(path, name string, sum uint32) (*run, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	r := &run{name: name, file: f, sum: sum, dead: map[uint32]string{}}
	if err := r.readTail(); err != nil {
		f.Close()
		return nil, err
	}
	return r, nil
}

func (r *run) readTail() error {
	info, err := r.file.Stat()
	if err != nil || info.Size() < trailerSize {
		return errors.Join(errDamaged, err)
	}
	var trailer [trailerSize]byte
	if _, err := r.file.ReadAt(trailer[:], info.Size()-trailerSize); err != nil {
		return errors.Join(errDamaged, err)
	}
	var ok bool
	if r.shape, ok = parseShape(trailer[:], info.Size()); !ok {
		return errDamaged
	}
	b := make([]byte, r.tail())
	if _, err := r.file.ReadAt(b, info.Size()-r.tail()); err != nil {
		return errors.Join(errDamaged, err)
	}
	if sum := crc32.Checksum(b[:len(b)-4], castagnoli); sum != r.sum || sum != binary.LittleEndian.Uint32(b[len(b)-4:]) {
		return errDamaged
	}
	n := int(r.bloom)
	r.filter, b = b[:n:n], b[n:]
	r.fences = make([]uint64, r.recordBlocks())
	for i := range r.fences {
		r.fences[i] = binary.BigEndian.Uint64(b[8*i:])
	}
	b = b[8*len(r.fences):]
	for range r.packBlocks() {
		r.firsts = append(r.firsts, unpad(b[:r.width]))
		b = b[r.width:]
	}
	return nil
}

func unpad(b []byte) string { return string(bytes.TrimRight(b, "\x00")) }

// read fills b with block i, counted from the start of the file.
func (r *run) read(i int, b *block) error {
	if _, err := r.file.ReadAt(b[:], int64(i)*blockSize); err != nil {
		return fmt.Errorf("%w: %w", errDamaged, err)
	}
	return checkBlock(b[:])
}

func checkBlock(b []byte) error {
	if crc32.Checksum(b[:blockData], castagnoli) != binary.LittleEndian.Uint32(b[blockData:]) {
		return errDamaged
	}
	return nil
}

// find calls visit for the places of h until it returns false.
func (r *run) find(h *Hash, visit func(Place) bool) (more bool, err error) {
	if !r.filter.has(h) {
		return true, nil
	}
	key := binary.BigEndian.Uint64(h[:])
	i := max(0, sort.Search(len(r.fences), func(i int) bool { return r.fences[i] >= key })-1)
	b := blocks.Get().(*block)
	defer blocks.Put(b)
	for ; i < len(r.fences) && r.fences[i] <= key; i++ {
		if err := r.read(r.packBlocks()+i, b); err != nil {
			return false, err
		}
		if more, err := r.search(b, i, h, visit); !more || err != nil {
			return false, err
		}
	}
	return true, nil
}

// search calls visit for the places of h in block i of records, which b holds.
func (r *run) search(b *block, i int, h *Hash, visit func(Place) bool) (more bool, err error) {
	n := min(perBlock, int(r.records)-i*perBlock)
	at := func(j int) []byte { return b[j*recordSize:][:recordSize] }
	for j := sort.Search(n, func(j int) bool { return bytes.Compare(at(j)[:32], h[:]) >= 0 }); j < n; j++ {
		var c record
		c.parse(at(j))
		if c.hash != *h {
			break
		}
		if _, dead := r.dead[c.pack]; dead {
			continue
		}
		pack, err := r.packName(c.pack)
		if err != nil {
			return false, err
		}
		if !visit(c.place(pack)) {
			return false, nil
		}
	}
	return true, nil
}

func (c *record) parse(b []byte) {
	copy(c.hash[:], b)
	c.pack = binary.LittleEndian.Uint32(b[32:])
	c.offset = binary.LittleEndian.Uint32(b[36:])
	c.stored = binary.LittleEndian.Uint32(b[40:])
	c.raw = binary.LittleEndian.Uint32(b[44:])
	c.crc = binary.LittleEndian.Uint32(b[48:])
}

func (c *record) append(b []byte) []byte {
	b = append(b, c.hash[:]...)
	b = binary.LittleEndian.AppendUint32(b, c.pack)
	b = binary.LittleEndian.AppendUint32(b, c.offset)
	b = binary.LittleEndian.AppendUint32(b, c.stored)
	b = binary.LittleEndian.AppendUint32(b, c.raw)
	return binary.LittleEndian.AppendUint32(b, c.crc)
}

// packName returns the name of the pack of that number.
func (r *run) packName(n uint32) (string, error) {
	if n >= r.packs {
		return "", errDamaged
	}
	if r.packs <= holdMax {
		names, err := r.allNames()
		if err != nil {
			return "", err
		}
		return names[n], nil
	}
	b := blocks.Get().(*block)
	defer blocks.Put(b)
	per := r.namesPerBlock()
	if err := r.read(int(n)/per, b); err != nil {
		return "", err
	}
	return r.slot(b, int(n)%per), nil
}

// allNames returns the names of all packs, dropped or not.
func (r *run) allNames() ([]string, error) {
	if held := r.held.Load(); held != nil {
		return *held, nil
	}
	b := blocks.Get().(*block)
	defer blocks.Put(b)
	names := make([]string, 0, r.packs)
	for i := range r.packBlocks() {
		if err := r.read(i, b); err != nil {
			return nil, err
		}
		for j := range min(r.namesPerBlock(), int(r.packs)-len(names)) {
			names = append(names, r.slot(b, j))
		}
	}
	r.held.Store(&names)
	return names, nil
}

// slot returns name j of a block of names.
func (r *run) slot(b *block, j int) string { return unpad(b[j*int(r.width):][:r.width]) }

// number returns the number of the pack of that name, dropped or not.
func (r *run) number(pack string) (n uint32, ok bool, err error) {
	i := sort.SearchStrings(r.firsts, pack)
	if i == len(r.firsts) || r.firsts[i] != pack {
		i--
	}
	if i < 0 {
		return 0, false, nil
	}
	b := blocks.Get().(*block)
	defer blocks.Put(b)
	if err := r.read(i, b); err != nil {
		return 0, false, err
	}
	first := i * r.namesPerBlock()
	count := min(r.namesPerBlock(), int(r.packs)-first)
	j, ok := sort.Find(count, func(j int) int { return strings.Compare(pack, r.slot(b, j)) })
	return uint32(first + j), ok, nil
}

func (r *run) has(pack string) (bool, error) {
	n, ok, err := r.number(pack)
	_, dead := r.dead[n]
	return ok && !dead, err
}

// drop marks a pack as dropped and reports whether it was in the run.
func (r *run) drop(pack string) (bool, error) {
	n, ok, err := r.number(pack)
	if _, dead := r.dead[n]; err != nil || !ok || dead {
		return false, err
	}
	r.dead[n] = pack
	return true, nil
}

// after returns at most limit packs after a name, in order.
func (r *run) after(name string, limit int) ([]string, error) {
	var all []string
	b := blocks.Get().(*block)
	defer blocks.Put(b)
	i, _ := slices.BinarySearch(r.firsts, name)
	for i = max(0, i-1); i < len(r.firsts) && len(all) < limit; i++ {
		if err := r.read(i, b); err != nil {
			return nil, err
		}
		first := i * r.namesPerBlock()
		for j := range min(r.namesPerBlock(), int(r.packs)-first) {
			if _, dead := r.dead[uint32(first+j)]; dead {
				continue
			}
			if n := r.slot(b, j); n > name {
				all = append(all, n)
			}
		}
	}
	return all[:min(len(all), limit)], nil
}
