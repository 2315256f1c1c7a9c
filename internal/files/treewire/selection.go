package treewire

import (
	"encoding/binary"
	"io"
	"math"
)

// Selection identifies chunks of a version. Chunks are numbered from 0 in the order
// of the tree's entries and of the chunks within each file. Repeated chunks have
// their own numbers. The count begins after the entry with the path After, so that
// the server need not read the entries before it. If After is empty, the count begins
// at the first entry.
type Selection struct {
	After  string  // path of an entry, or ""
	Ranges []Range // ascending, with gaps between them
}

// Range is Count chunks from First on.
type Range struct{ First, Count int64 }

// MaxSelection is the maximum size of a selection, in bytes.
const MaxSelection = 1 << 20

// Add adds the chunk with the given number, which must be greater than the numbers of
// all chunks added before.
func (s *Selection) Add(number int64) {
	if n := len(s.Ranges); n > 0 && s.Ranges[n-1].First+s.Ranges[n-1].Count == number {
		s.Ranges[n-1].Count++
		return
	}
	s.Ranges = append(s.Ranges, Range{number, 1})
}

// Append appends the encoding of s to b: the path, then for each range the number of
// chunks between the previous range and this range, and the number of its chunks.
func (s *Selection) Append(b []byte) []byte {
	b = appendText(b, s.After)
	var at int64
	for _, r := range s.Ranges {
		b = binary.AppendUvarint(b, uint64(r.First-at))
		b = binary.AppendUvarint(b, uint64(r.Count))
		at = r.First + r.Count
	}
	return b
}

// ReadSelection reads a selection until the end of r. If the selection is invalid, the
// error wraps ErrMalformed.
func ReadSelection(r io.Reader) (Selection, error) {
	b, err := io.ReadAll(io.LimitReader(r, MaxSelection+1))
	if err != nil {
		return Selection{}, err
	}
	var s Selection
	n, m := binary.Uvarint(b)
	if m <= 0 || n > maxText || n >= uint64(len(b)-m) || len(b) > MaxSelection {
		return Selection{}, malformed("a selection must be a path and ranges of at most %d bytes", MaxSelection)
	}
	s.After, b = string(b[m:][:n]), b[m+int(n):]
	var at int64
	for len(b) > 0 {
		gap, n := binary.Uvarint(b)
		count, m := binary.Uvarint(b[max(n, 0):])
		if n <= 0 || m <= 0 {
			return Selection{}, malformed("a selection is incomplete or contains an invalid number")
		}
		if gap == 0 && len(s.Ranges) > 0 || count == 0 || gap > math.MaxInt32 || count > math.MaxInt32 {
			return Selection{}, malformed("the ranges of a selection must be ascending and not empty")
		}
		s.Ranges = append(s.Ranges, Range{at + int64(gap), int64(count)})
		at += int64(gap) + int64(count)
		b = b[n+m:]
	}
	return s, nil
}
