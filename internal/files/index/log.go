package index

import (
	"bufio"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/stint-dev/stint/internal/files/format"
)

// A log consists of a magic number and sections. A section has a head, the name of
// the pack, and a record for each chunk. The head consists of a checksum of the
// rest of the section, the length of the name, and the number of chunks. If the pack
// is dropped, the checksum is inverted. A record ends with a checksum of its own, so
// that a chunk can be read without the rest. All numbers are little-endian.
const (
	logName  = "chunks.log"
	logMagic = "stintcl1"

	sectionHead = 3 * 4
	recordData  = 32 + 4*4
	recordSize  = recordData + 4
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// partOf returns the last four bytes of a hash, which are the key in memory.
func partOf(hash []byte) uint32 { return binary.LittleEndian.Uint32(hash[28:]) }

// encodeSection returns the section of a pack with the chunks among its segments,
// and the checksum of the section.
func encodeSection(pack string, segments []format.Segment) (b []byte, sum uint32) {
	le := binary.LittleEndian
	b = make([]byte, sectionHead, sectionHead+len(pack)+len(segments)*recordSize)
	b = append(b, pack...)
	chunks := uint32(0)
	for i := range segments {
		s := &segments[i]
		if s.Kind != format.ChunkSegment {
			continue
		}
		chunks++
		start := len(b)
		b = append(b, s.Hash[:]...)
		for _, v := range []uint32{s.Offset, s.Length, s.Size, s.CRC} {
			b = le.AppendUint32(b, v)
		}
		b = le.AppendUint32(b, crc32.Checksum(b[start:], castagnoli))
	}
	le.PutUint32(b[4:], uint32(len(pack)))
	le.PutUint32(b[8:], chunks)
	sum = crc32.Checksum(b[4:], castagnoli)
	le.PutUint32(b, sum)
	return b, sum
}

// readChunk returns chunk i of a pack; ok is false if its record is damaged.
func (p *section) readChunk(log io.ReaderAt, i int32) (c format.Chunk, ok bool) {
	var b [recordSize]byte
	if _, err := log.ReadAt(b[:], p.offset+sectionHead+int64(len(p.name))+int64(i)*recordSize); err != nil {
		return c, false
	}
	le := binary.LittleEndian
	at := format.Place{Pack: p.name, Offset: le.Uint32(b[32:]), Length: le.Uint32(b[36:]), CRC: le.Uint32(b[44:])}
	c = format.Chunk{Hash: format.Hash(b[:]), Size: le.Uint32(b[40:]), Place: at}
	return c, crc32.Checksum(b[:recordData], castagnoli) == le.Uint32(b[recordData:])
}

// writeDropped marks the section as dropped.
func (p *section) writeDropped(log io.WriterAt) error {
	_, err := log.WriteAt(binary.LittleEndian.AppendUint32(nil, ^p.sum), p.offset)
	return err
}

// replay reads the log into the empty fields of the shard. It truncates the log at
// the first section that is damaged or incomplete.
func (s *shard) replay() error {
	info, err := s.log.Stat()
	if err != nil {
		return err
	}
	r := &logReader{r: bufio.NewReaderSize(s.log, 1<<20), left: info.Size()}
	s.end = int64(len(logMagic))
	if b, ok := r.next(s.end); !ok || string(b) != logMagic {
		_, err := s.log.WriteAt([]byte(logMagic), 0)
		return errors.Join(err, s.log.Truncate(s.end))
	}
	s.last = make(map[uint32]int32, r.left/recordSize)
	s.before = make([]int32, 0, r.left/recordSize)
	for r.left > 0 {
		p, records, ok := r.section()
		if !ok {
			return s.log.Truncate(s.end)
		}
		p.offset, s.end = s.end, info.Size()-r.left
		s.enter(p, records)
		if p.dropped {
			delete(s.numbers, p.name)
			s.wasted += s.end - p.offset
		}
	}
	return nil
}

// logReader reads a log from its start.
type logReader struct {
	r    io.Reader
	left int64 // bytes of the log that were not read yet
	buf  []byte
}

// next returns the next n bytes, which are valid until the next call.
func (r *logReader) next(n int64) (b []byte, ok bool) {
	if n > r.left {
		return nil, false
	}
	r.left -= n
	r.buf = slices.Grow(r.buf[:0], int(n))[:n]
	_, err := io.ReadFull(r.r, r.buf)
	return r.buf, err == nil
}

// section returns the next section, and its records unless it is dropped. The records
// are valid until the next call. If the section is damaged or incomplete, ok is
// false.
func (r *logReader) section() (p section, records []byte, ok bool) {
	le := binary.LittleEndian
	b, ok := r.next(sectionHead)
	if !ok {
		return p, nil, false
	}
	stored, name, n := le.Uint32(b), int(le.Uint32(b[4:])), int64(le.Uint32(b[8:]))
	p.sum = crc32.Checksum(b[4:], castagnoli)
	if name > maxName {
		return p, nil, false
	}
	if b, ok = r.next(int64(name) + n*recordSize); !ok {
		return p, nil, false
	}
	p.sum = crc32.Update(p.sum, castagnoli, b)
	p.name = string(b[:name])
	if p.dropped = stored == ^p.sum; p.dropped {
		return p, nil, true
	}
	return p, b[name:], stored == p.sum
}

// compact writes the log again without the dropped sections, and unloads the shard.
func (s *shard) compact() error {
	path := filepath.Join(s.dir, logName)
	f, err := os.OpenFile(path+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	w := bufio.NewWriterSize(f, 1<<20)
	err = errors.Join(s.copyTo(w), w.Flush(), f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	s.unload()
	return nil
}

func (s *shard) copyTo(w io.Writer) error {
	if _, err := io.WriteString(w, logMagic); err != nil {
		return err
	}
	for i, p := range s.packs {
		if p.dropped {
			continue
		}
		if _, err := io.Copy(w, io.NewSectionReader(s.log, p.offset, s.sectionEnd(i)-p.offset)); err != nil {
			return err
		}
	}
	return nil
}
