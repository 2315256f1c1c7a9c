package treewire

import (
	"encoding/binary"
	"io"
	"math"
)

// Selection says which of a version's chunks are meant. Chunks are numbered
// from 0 in the order of a walk through the tree, each file's in their order,
// a chunk that occurs again with a number of its own. The walk begins after
// the entry After, from the start where that is empty, so that a server need
// not count what comes before.
type Selection struct {
	After  string
	Ranges []Range // ascending, none touches another
}

// Range is the chunks from First on, Count of them.
type Range struct{ First, Count int64 }

// MaxSelection is how many bytes a selection may have.
const MaxSelection = 1 << 20

// Add selects one more chunk, whose number is greater than those before.
func (s *Selection) Add(number int64) {
	if n := len(s.Ranges); n > 0 && s.Ranges[n-1].First+s.Ranges[n-1].Count == number {
		s.Ranges[n-1].Count++
		return
	}
	s.Ranges = append(s.Ranges, Range{number, 1})
}

// Append adds the form of s to b: the path, then for each range how many
// chunks are left out before it and how many it has.
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

// ReadSelection reads a selection of one chunk or more to the end of r.
func ReadSelection(r io.Reader) (Selection, error) {
	b, err := io.ReadAll(io.LimitReader(r, MaxSelection+1))
	if err != nil {
		return Selection{}, err
	}
	var s Selection
	n, m := binary.Uvarint(b)
	if m <= 0 || n > maxText || n >= uint64(len(b)-m) || len(b) > MaxSelection {
		return Selection{}, malformed("a selection is a path and ranges, in at most %d bytes", MaxSelection)
	}
	s.After, b = string(b[m:][:n]), b[m+int(n):]
	var at int64
	for len(b) > 0 {
		gap, n := binary.Uvarint(b)
		count, m := binary.Uvarint(b[max(n, 0):])
		if n <= 0 || m <= 0 {
			return Selection{}, malformed("a selection breaks off or holds no number")
		}
		if gap == 0 && len(s.Ranges) > 0 || count == 0 || gap > math.MaxInt32 || count > math.MaxInt32 {
			return Selection{}, malformed("the ranges of a selection must ascend and have chunks")
		}
		s.Ranges = append(s.Ranges, Range{at + int64(gap), int64(count)})
		at += int64(gap) + int64(count)
		b = b[n+m:]
	}
	return s, nil
}
