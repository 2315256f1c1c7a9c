package format

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress"
	"github.com/klauspost/compress/flate"
)

// A segment is a piece of a raw deflate stream that begins and ends on a byte
// boundary, does not refer to bytes before its beginning, and does not end the
// stream. Therefore concatenated segments form a deflate stream again.

// StreamEnd is the final, empty block that completes a stream of segments.
var StreamEnd = []byte{3, 0}

const (
	storedBlock = 1<<16 - 1 // maximum content of a stored block, in bytes
	blockHead   = 5         // bytes before the content of a stored block
	maxSegment  = MaxChunk + blockHead*(MaxChunk/storedBlock+1)
)

// Compressor makes segments. It is not safe for concurrent use.
type Compressor struct {
	w *flate.Writer
}

// NewCompressor returns a compressor of the fastest level.
func NewCompressor() *Compressor {
	w, err := flate.NewWriter(io.Discard, flate.BestSpeed)
	if err != nil {
		panic("files: " + err.Error()) // a wrong level
	}
	return &Compressor{w: w}
}

// Compress replaces the content of out by the segment of b. The segment is deflated,
// unless b looks random or stored blocks are not larger.
func (c *Compressor) Compress(out *bytes.Buffer, b []byte) error {
	out.Reset()
	if !looksRandom(b) {
		c.w.Reset(out)
		_, err := c.w.Write(b)
		if err := errors.Join(err, c.w.Flush()); err != nil {
			return fmt.Errorf("compressing a chunk: %w", err)
		}
		if out.Len() < storedLength(len(b)) {
			return nil
		}
	}
	out.Reset()
	out.Grow(storedLength(len(b)))
	for len(b) > 0 {
		n := min(len(b), storedBlock)
		out.Write([]byte{0, byte(n), byte(n >> 8), ^byte(n), ^byte(n >> 8)})
		out.Write(b[:n])
		b = b[n:]
	}
	return nil
}

func storedLength(n int) int { return n + blockHead*((n+storedBlock-1)/storedBlock) }

// looksRandom estimates from a sample whether b is incompressible.
func looksRandom(b []byte) bool {
	return len(b) > 4096 && compress.Estimate(b[:min(len(b), 64<<10)]) < 0.02
}

// Expander turns segments back into chunks. It is not safe for concurrent use.
type Expander struct {
	r io.ReadCloser
}

// ErrCorrupt means that a segment cannot be expanded to a chunk with the right hash.
var ErrCorrupt = errors.New("a stored chunk is corrupt")

// Expand expands the segment of c into b, which must have the size of c, and checks
// the hash of the content.
func (x *Expander) Expand(b, segment []byte, c *Chunk) error {
	source := io.MultiReader(bytes.NewReader(segment), bytes.NewReader(StreamEnd))
	if x.r == nil {
		x.r = flate.NewReader(source)
	} else if err := x.r.(flate.Resetter).Reset(source, nil); err != nil {
		return fmt.Errorf("expanding a chunk: %w", err)
	}
	if _, err := io.ReadFull(x.r, b); err != nil {
		return fmt.Errorf("%w: expanding it: %w", ErrCorrupt, err)
	}
	if Hash(sha256.Sum256(b)) != c.Hash {
		return fmt.Errorf("%w: it does not have the hash %x", ErrCorrupt, c.Hash)
	}
	return nil
}

// AppendRuns appends a segment that holds b. It is meant for tar headers, which
// are mostly runs of one byte, and its output depends on b only: an archive must
// not change with the release of a compressor. The segment consists of literals and
// repetitions of the preceding byte, in the fixed code of RFC 1951, 3.2.6.
func AppendRuns(out, b []byte) []byte {
	w := bitWriter{out: out}
	w.write(1<<1, 3) // not final, fixed code
	for i := 0; i < len(b); {
		w.literal(b[i])
		run := 1
		for i+run < len(b) && b[i+run] == b[i] {
			run++
		}
		w.repeat(run-1, b[i])
		i += run
	}
	w.write(0, 7) // end of block
	w.write(0, 3) // an empty stored block ends on a byte boundary
	w.align()
	return append(w.out, 0, 0, 0xff, 0xff)
}

// bitWriter packs bits, the least significant first.
type bitWriter struct {
	out  []byte
	bits uint64
	n    uint
}

func (w *bitWriter) write(v uint64, n uint) {
	w.bits |= v << w.n
	w.n += n
	for w.n >= 8 {
		w.out = append(w.out, byte(w.bits))
		w.bits >>= 8
		w.n -= 8
	}
}

func (w *bitWriter) align() {
	if w.n > 0 {
		w.out = append(w.out, byte(w.bits))
		w.bits, w.n = 0, 0
	}
}

func (w *bitWriter) literal(c byte) {
	s := fixedCode[c]
	w.write(uint64(s.bits), uint(s.n))
}

// repeat writes n copies of c. The last byte before the call must be c.
func (w *bitWriter) repeat(n int, c byte) {
	for n > 2 {
		length := min(n, len(runCode)-1)
		s := runCode[length]
		w.write(uint64(s.bits), uint(s.n))
		n -= length
	}
	for range n {
		w.literal(c)
	}
}

// symbol is a code of n bits, in the bit order of bitWriter.
type symbol struct {
	bits uint32
	n    uint8
}

// fixedCode holds the code of each literal byte.
var fixedCode = func() (t [256]symbol) {
	for c := range t {
		if c < 144 {
			t[c] = symbol{mirrored(0x30+uint32(c), 8), 8}
		} else {
			t[c] = symbol{mirrored(0x190+uint32(c)-144, 9), 9}
		}
	}
	return t
}()

// runCode holds, by count, the codes that repeat the last byte 3 to 258 times: length
// code, extra bits, distance 1.
var runCode = func() (t [259]symbol) {
	length := 3
	for code := range 28 { // 257 to 284
		extra := uint8(max(0, code/4-1))
		for i := range uint32(1) << extra {
			if length < len(t) {
				t[length] = runSymbol(257+uint32(code), i, extra)
			}
			length++
		}
	}
	t[258] = runSymbol(285, 0, 0)
	return t
}()

func runSymbol(code, extra uint32, extraBits uint8) symbol {
	s := symbol{mirrored(code-256, 7), 7}
	if code >= 280 {
		s = symbol{mirrored(0xc0+code-280, 8), 8}
	}
	s.bits |= extra << s.n
	s.n += extraBits + 5 // the code of distance 1 is five zeros
	return s
}

func mirrored(v uint32, n int) (m uint32) {
	for range n {
		m = m<<1 | v&1
		v >>= 1
	}
	return m
}
