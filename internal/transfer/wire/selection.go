package wire

import (
	"encoding/binary"
	"io"
	"math"
)

// Selection says which of a version's chunks are meant. Chunks are numbered
// from 0 in the order of a walk through the tree, each file's in their order,
// a chunk that occurs again with a number of its own. Ranges ascend and do not
// touch one another.
type Selection []Range

// Range is the chunks from First on, Count of them.
type Range struct{ First, Count int64 }

// MaxSelection is how many bytes a selection may have.
const MaxSelection = 1 << 20

// Add selects one more chunk, whose number is greater than those before.
func (s *Selection) Add(number int64) {
	if n := len(*s); n > 0 && (*s)[n-1].First+(*s)[n-1].Count == number {
		(*s)[n-1].Count++
		return
	}
	*s = append(*s, Range{number, 1})
}

// Append adds the form of s to b: for each range how many chunks are left out
// before it and how many it has.
func (s Selection) Append(b []byte) []byte {
	var at int64
	for _, r := range s {
		b = binary.AppendUvarint(b, uint64(r.First-at))
		b = binary.AppendUvarint(b, uint64(r.Count))
		at = r.First + r.Count
	}
	return b
}

// Len is the number of chunks that are selected.
func (s Selection) Len() (n int64) {
	for _, r := range s {
		n += r.Count
	}
	return n
}

// ReadSelection reads a selection of one chunk or more to the end of r.
func ReadSelection(r io.Reader) (Selection, error) {
	b, err := io.ReadAll(io.LimitReader(r, MaxSelection+1))
	if err != nil {
		return nil, err
	}
	if len(b) > MaxSelection || len(b) == 0 {
		return nil, malformed("a selection has 1 to %d bytes", MaxSelection)
	}
	var s Selection
	var at int64
	for len(b) > 0 {
		gap, n := binary.Uvarint(b)
		if n <= 0 {
			return nil, malformed("a selection breaks off or holds no number")
		}
		count, m := binary.Uvarint(b[n:])
		if m <= 0 {
			return nil, malformed("a selection breaks off or holds no number")
		}
		if gap == 0 && len(s) > 0 || count == 0 || gap > math.MaxInt32 || count > math.MaxInt32 {
			return nil, malformed("the ranges of a selection must ascend and have chunks")
		}
		s = append(s, Range{at + int64(gap), int64(count)})
		at += int64(gap) + int64(count)
		b = b[n+m:]
	}
	return s, nil
}
