package index

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"os"
)

// runWriter writes a run: packs in the order of their names, then, after expect,
// records in the order of their hashes.
type runWriter struct {
	shape
	file   *os.File
	out    *bufio.Writer
	block  []byte // of blockData bytes at most
	filter filter
	fences []uint64
	firsts []byte // names, padded
}

func newRunWriter(path string, width int) (*runWriter, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, fmt.Errorf("making a run of the chunk index: %w", err)
	}
	return &runWriter{
		shape: shape{width: uint32(width)},
		file:  f, out: bufio.NewWriterSize(f, 256<<10), block: make([]byte, 0, blockSize),
	}, nil
}

func (w *runWriter) pack(name string) error {
	if len(w.block)+int(w.width) > blockData {
		if err := w.flush(); err != nil {
			return err
		}
	}
	from := len(w.block)
	w.block = w.block[:from+int(w.width)]
	clear(w.block[from+copy(w.block[from:], name):])
	if from == 0 {
		w.firsts = append(w.firsts, w.block[:w.width]...)
	}
	w.packs++
	return nil
}

// expect ends the packs and sets the largest number of records.
func (w *runWriter) expect(n int) {
	w.filter = make(filter, filterSize(n))
	w.fences = make([]uint64, 0, n/perBlock+1)
}

func (w *runWriter) record(c *record) error {
	if w.records == 0 || len(w.block)+recordSize > blockData {
		if err := w.flush(); err != nil {
			return err
		}
		w.fences = append(w.fences, binary.BigEndian.Uint64(c.hash[:]))
	}
	w.block = c.append(w.block)
	w.filter.add(&c.hash)
	w.records++
	return nil
}

// flush ends the block.
func (w *runWriter) flush() error {
	if len(w.block) == 0 {
		return nil
	}
	b := w.block[:blockSize]
	clear(b[len(w.block):])
	binary.LittleEndian.PutUint32(b[blockData:], crc32.Checksum(b[:blockData], castagnoli))
	w.block = w.block[:0]
	_, err := w.out.Write(b)
	return writing(err)
}

func writing(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("writing a run of the chunk index: %w", err)
}

// finish completes the file and opens the run.
func (w *runWriter) finish(name string) (*run, error) {
	if err := w.flush(); err != nil {
		return nil, err
	}
	w.bloom = uint64(len(w.filter))
	tail := make([]byte, 0, w.tail())
	tail = append(tail, w.filter...)
	for _, f := range w.fences {
		tail = binary.BigEndian.AppendUint64(tail, f)
	}
	tail = append(tail, w.firsts...)
	tail = w.append(tail)
	sum := crc32.Checksum(tail, castagnoli)
	if _, err := w.out.Write(binary.LittleEndian.AppendUint32(tail, sum)); err != nil {
		return nil, writing(err)
	}
	if err := w.out.Flush(); err != nil {
		return nil, writing(err)
	}
	r := &run{shape: w.shape, name: name, file: w.file, sum: sum, filter: w.filter, fences: w.fences, dead: map[uint32]string{}}
	for i := 0; i < len(w.firsts); i += int(w.width) {
		r.firsts = append(r.firsts, unpad(w.firsts[i:][:w.width]))
	}
	return r, nil
}
