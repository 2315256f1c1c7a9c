package treewire

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Frame is a transferred chunk.
type Frame struct {
	Hash Hash
	Raw  uint32 // bytes of content, 1 to MaxChunk
	// Segment is the content as a raw deflate stream that ends at a byte boundary
	// and has no final block. Incompressible content is in stored blocks.
	Segment []byte
}

const (
	framesMagic = "stint-c1"
	// maxSegment is the length of MaxChunk bytes as stored blocks.
	maxSegment = MaxChunk + 5*(MaxChunk/(1<<16-1)+1)
)

// frameHead is the size of the bytes before a segment: two lengths and the hash.
// Two lengths of zero are the end mark.
const frameHead = 4 + 4 + len(Hash{})

// AppendFramesHead appends the beginning of frames to b.
func AppendFramesHead(b []byte) []byte { return append(b, framesMagic...) }

// AppendFrame appends f to b.
func AppendFrame(b []byte, f *Frame) []byte {
	b = binary.LittleEndian.AppendUint32(b, f.Raw)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(f.Segment)))
	b = append(b, f.Hash[:]...)
	return append(b, f.Segment...)
}

// AppendFramesEnd appends the end mark to b.
func AppendFramesEnd(b []byte) []byte { return append(b, make([]byte, 8)...) }

// FrameReader reads frames. It is not safe for concurrent use.
type FrameReader struct {
	r       *bufio.Reader
	begun   bool
	ended   bool
	segment []byte
}

// NewFrameReader returns a reader of the frames in r. The reader may read more bytes
// from r than the frames have.
func NewFrameReader(r io.Reader) *FrameReader {
	return &FrameReader{r: bufio.NewReaderSize(r, 64<<10)}
}

// Next returns the next frame, or io.EOF after the last one. The segment is valid
// until the next call. If the end mark is missing, the error wraps
// io.ErrUnexpectedEOF.
func (f *FrameReader) Next() (Frame, error) {
	if f.ended {
		return Frame{}, io.EOF
	}
	if err := f.readMagic(); err != nil {
		return Frame{}, err
	}
	var head [frameHead]byte
	if err := f.fill(head[:8]); err != nil {
		return Frame{}, err
	}
	raw, stored := binary.LittleEndian.Uint32(head[:]), binary.LittleEndian.Uint32(head[4:])
	switch {
	case raw == 0 && stored == 0:
		f.ended = true
		return Frame{}, io.EOF
	case raw == 0 || raw > MaxChunk:
		return Frame{}, malformed("a chunk has %d bytes; 1 to %d are allowed", raw, MaxChunk)
	case stored == 0 || stored > maxSegment:
		return Frame{}, malformed("a chunk's segment has %d bytes; 1 to %d are allowed", stored, maxSegment)
	}
	if err := f.fill(head[8:]); err != nil {
		return Frame{}, err
	}
	if cap(f.segment) < int(stored) {
		f.segment = make([]byte, stored)
	}
	f.segment = f.segment[:stored]
	if err := f.fill(f.segment); err != nil {
		return Frame{}, err
	}
	return Frame{Hash: Hash(head[8:]), Raw: raw, Segment: f.segment}, nil
}

func (f *FrameReader) readMagic() error {
	if f.begun {
		return nil
	}
	f.begun = true
	var magic [len(framesMagic)]byte
	if err := f.fill(magic[:]); err != nil {
		return err
	}
	if string(magic[:]) != framesMagic {
		return malformed("chunks must begin with %q", framesMagic)
	}
	return nil
}

func (f *FrameReader) fill(b []byte) error {
	_, err := io.ReadFull(f.r, b)
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return fmt.Errorf("reading chunks: %w", err)
	}
	return nil
}
