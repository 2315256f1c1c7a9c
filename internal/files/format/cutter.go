package format

import (
	"bytes"
	"io"
)

// MaxSingleChunk is the size in bytes up to which a file is one chunk.
const MaxSingleChunk = WholeFile

// Cutter cuts content into the same chunks as a Library does. It is not safe for
// concurrent use.
type Cutter struct {
	r     io.Reader
	b     []byte
	n     int // bytes in b
	taken int // bytes of b that the last Next returned
	begun bool
	ended bool // r has ended
}

// Reset makes c cut the content of r.
func (c *Cutter) Reset(r io.Reader) {
	if c.b == nil {
		c.b = make([]byte, MaxChunk+1)
	}
	*c = Cutter{r: r, b: c.b}
}

// Next returns the content of the next chunk, or io.EOF after the last one. The
// content is valid until the next call.
func (c *Cutter) Next() ([]byte, error) {
	c.n = copy(c.b, c.b[c.taken:c.n])
	c.taken = 0
	if !c.begun {
		c.begun = true
		if err := c.fill(WholeFile + 1); err != nil {
			return nil, err
		}
		if c.ended {
			return c.take(c.n)
		}
	}
	if err := c.fill(len(c.b)); err != nil {
		return nil, err
	}
	return c.take(Cut(c.b[:c.n]))
}

func (c *Cutter) fill(to int) error {
	if c.ended {
		return nil
	}
	n, ended, err := Fill(c.r, c.b[c.n:to])
	c.n += n
	c.ended = ended
	return err
}

func (c *Cutter) take(n int) ([]byte, error) {
	if n == 0 {
		return nil, io.EOF
	}
	c.taken = n
	return c.b[:n], nil
}

// Codec converts between chunks and their segments. The zero value is ready for
// use. A Codec is not safe for concurrent use.
type Codec struct {
	out      *Compressor
	segment  bytes.Buffer
	expander Expander
}

// Segment returns the segment of a chunk. The segment is valid until the next call.
func (c *Codec) Segment(chunk []byte) ([]byte, error) {
	if c.out == nil {
		c.out = NewCompressor()
	}
	if err := c.out.Compress(&c.segment, chunk); err != nil {
		return nil, err
	}
	return c.segment.Bytes(), nil
}

// Chunk expands a segment into b. If the content does not fill b or its SHA-256 is
// not sum, Chunk returns an error.
func (c *Codec) Chunk(b, segment []byte, sum [32]byte) error {
	return c.expander.Expand(b, segment, &Chunk{Hash: sum})
}

// Fill reads until b is full or r has ended. Unlike io.ReadFull, it distinguishes
// the end of r from an io.ErrUnexpectedEOF that r returns.
func Fill(r io.Reader, b []byte) (n int, ended bool, err error) {
	for n < len(b) {
		var more int
		more, err = r.Read(b[n:])
		n += more
		if err == io.EOF {
			return n, true, nil
		} else if err != nil {
			return n, false, err
		}
	}
	return n, false, nil
}
