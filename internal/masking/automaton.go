package masking

import (
	"bytes"
	"math/bits"
	"slices"
)

// automaton finds all occurrences of many patterns in one pass (Aho and
// Corasick, 1975). Its states are the prefixes of the patterns, numbered breadth
// first: 0 is the empty prefix, the children of a state have consecutive numbers,
// and a shorter prefix has a smaller number. After reading a text, the automaton is
// in the state of the longest suffix of the text that is a prefix of a pattern. The
// automaton is immutable.
//
// The states of the shortest prefixes, which are visited most, have a row with the
// next state for each class of bytes. Other states have only their children and a
// fail state. A step usually takes one or two look-ups. A state takes about twenty
// bytes. Most of a text is skipped without steps; see skip.
type automaton struct {
	window   int     // length of the prefixes of patterns from which skips is computed
	skips    []uint8 // distances by the hash of three bytes; see fillSkips
	hashBits int     // log2 of the length of skips
	shallow  int32   // in states below this number text is skipped: those of prefixes of at most one byte; 0 if skipping is disabled

	class  [256]uint8 // class of each byte: 0 if the byte is in no pattern; otherwise a class of its own
	stride int32      // number of classes
	dense  int32      // number of states with a row
	rows   []int32    // rows[stride*state+class] is the next state, for state < dense

	label   []byte  // last byte of the state's prefix
	first   []int32 // first child of the state; its children end where those of the next state begin
	fail    []int32 // state of the longest proper suffix of the prefix
	match   []int32 // 1 + index of the longest pattern that is a suffix of the prefix, or 0
	hold    []int32 // length of the prefix if it is a proper prefix of a pattern, or 0
	lengths []int32 // length of each pattern
}

const (
	denseStates = 128     // maximum number of rows, which take up to 1 KiB each
	maxBlocks   = 1 << 15 // maximum number of three-byte blocks in skips, which take up to eight bytes each
)

// compile returns the automaton for patterns. The patterns must be sorted, distinct, and
// not empty.
func compile(patterns []string) *automaton {
	states := 1
	for i, p := range patterns {
		states += len(p)
		if i > 0 {
			states -= commonPrefix(p, patterns[i-1])
		}
	}
	a := &automaton{
		label: make([]byte, 1, states), first: make([]int32, 0, states+1),
		fail: make([]int32, states), match: make([]int32, states), hold: make([]int32, states),
		lengths: make([]int32, len(patterns)),
	}
	for i, p := range patterns {
		a.lengths[i] = int32(len(p))
	}
	a.number(patterns)
	a.classify()
	a.link()
	a.fillSkips(patterns)
	return a
}

// commonPrefix returns the length of the longest common prefix of a and b.
func commonPrefix(a, b string) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

// prefixGroup is a state under construction: patterns[lo:hi] are the patterns that begin
// with the state's prefix.
type prefixGroup struct{ lo, hi int32 }

// number creates the states in the order of the length of their prefixes.
func (a *automaton) number(patterns []string) {
	level, longer := []prefixGroup{{hi: int32(len(patterns))}}, []prefixGroup(nil)
	for depth := int32(0); len(level) > 0; depth++ {
		for _, g := range level {
			state := len(a.first)
			a.first = append(a.first, int32(len(a.label)))
			if g.lo < g.hi && len(patterns[g.lo]) == int(depth) { // a pattern that equals the prefix is the first, because patterns are sorted
				a.match[state] = g.lo + 1
				g.lo++
			}
			if g.lo < g.hi {
				a.hold[state] = depth
			}
			for g.lo < g.hi {
				c, end := patterns[g.lo][depth], g.lo+1
				for end < g.hi && patterns[end][depth] == c {
					end++
				}
				a.label = append(a.label, c)
				longer = append(longer, prefixGroup{g.lo, end})
				g.lo = end
			}
		}
		level, longer = longer, level[:0]
	}
	a.first = append(a.first, int32(len(a.label)))
}

// classify assigns a class to each byte that occurs in a pattern. If all 256 bytes
// occur, the last byte has class 0.
func (a *automaton) classify() {
	var occurs [256]bool
	for _, c := range a.label[1:] {
		occurs[c] = true
	}
	a.stride = 1
	for c := range occurs {
		if occurs[c] && a.stride < 256 {
			a.class[c] = uint8(a.stride)
			a.stride++
		}
	}
}

// link computes the fail states, matches, and rows, from short prefixes to long ones.
func (a *automaton) link() {
	states := int32(len(a.label))
	rows := min(states, denseStates)
	a.rows = make([]int32, a.stride*rows)
	for s := range states {
		f := a.fail[s]
		if a.match[s] == 0 {
			a.match[s] = a.match[f]
		}
		for child := a.first[s]; s != 0 && child < a.first[s+1]; child++ {
			a.fail[child] = a.next(f, a.label[child])
		}
		if s < rows {
			a.fillRow(s)
			a.dense = s + 1
		}
	}
}

// fillRow fills the row of s. The row of the fail state of s must be complete.
func (a *automaton) fillRow(s int32) {
	row := a.rows[a.stride*s : a.stride*(s+1)]
	if f := a.fail[s]; s != 0 {
		copy(row, a.rows[a.stride*f:a.stride*(f+1)])
	}
	for child := a.first[s]; child < a.first[s+1]; child++ {
		row[a.class[a.label[child]]] = child
	}
}

// next returns the state that follows state s after the byte c.
func (a *automaton) next(s int32, c byte) int32 {
	for s >= a.dense {
		for child, end := a.first[s], a.first[s+1]; child < end; child++ {
			if a.label[child] == c {
				return child
			}
		}
		s = a.fail[s]
	}
	return a.rows[a.stride*s+int32(a.class[c])]
}

// fillSkips computes skips (Wu and Manber, 1994) from the windows of the patterns. The
// window of a pattern is its first a.window bytes. The entry of skips for three bytes is
// the smallest distance from their end to the end of a window that contains them, or
// a.window-2 if no window contains them. If the shortest pattern or the memory limit
// allows only windows of less than four bytes, skipping is disabled.
func (a *automaton) fillSkips(patterns []string) {
	a.window = min(int(slices.Min(a.lengths)), maxBlocks/len(patterns)+2, 255)
	if a.window < 4 {
		return
	}
	a.shallow = a.first[1]
	a.hashBits = max(12, bits.Len(uint(4*len(patterns)*(a.window-2))))
	a.skips = bytes.Repeat([]byte{uint8(a.window - 2)}, 1<<a.hashBits)
	for _, p := range patterns {
		for end := 3; end <= a.window; end++ {
			h := hash(p[end-3], p[end-2], p[end-1], a.hashBits)
			a.skips[h] = min(a.skips[h], uint8(a.window-end))
		}
	}
}

func hash(x, y, z byte, bits int) uint32 {
	return (uint32(x) | uint32(y)<<8 | uint32(z)<<16) * 0x9e3779b1 >> ((32 - bits) & 31)
}

// skip returns the first offset in text, from at on, at which an occurrence of a pattern
// may begin. It stops when fewer than a.window bytes are left, without examining them.
func skip[T string | []byte](a *automaton, text T, at int) int {
	skips, bits, most := a.skips, a.hashBits, a.window-2
	distance := func(end int) int { return int(skips[hash(text[end-3], text[end-2], text[end-1], bits)]) }
	end := at + a.window
	for end <= len(text) {
		// Try four offsets at once: look-ups that do not depend on one another are
		// faster.
		if end+3*most <= len(text) && distance(end)+distance(end+most)+distance(end+2*most)+distance(end+3*most) == 4*most {
			end += 4 * most
			continue
		}
		n := distance(end)
		if n == 0 {
			break
		}
		end += n
	}
	return end - a.window
}

// span is a range of text that will be replaced.
type span struct {
	start, end int // offsets in the text; start is -1 if the range begins before the text
	pattern    int // index of the pattern that occurs first in the range; the longest if several do
}

// scan processes text in the state s and returns the new state. It appends the ranges of
// occurrences to spans, in order. Overlapping occurrences become one range, and adjacent
// occurrences too if joinTouching is true. at is added to the offsets of the spans.
func scan[T string | []byte](a *automaton, s int32, text T, at int, spans []span, joinTouching bool) (int32, []span) {
	for i := 0; i < len(text); i++ {
		if s < a.shallow && (s == 0 || i > 0) {
			begin := i - int(min(s, 1)) // of the state's prefix
			if to := skip(a, text, begin); to > begin {
				i, s = to, 0
			}
		}
		if s < a.dense {
			s = a.rows[a.stride*s+int32(a.class[text[i]])]
		} else {
			s = a.next(s, text[i])
		}
		if m := a.match[s]; m != 0 {
			end := at + i + 1
			spans = join(spans, span{max(-1, end-int(a.lengths[m-1])), end, int(m - 1)}, joinTouching)
		}
	}
	return s, spans
}

// join appends the span n, which ends after all spans, and merges it with the spans that
// it overlaps, or touches if touching is true.
func join(spans []span, n span, touching bool) []span {
	for len(spans) > 0 {
		last := spans[len(spans)-1]
		if last.end < n.start || last.end == n.start && !touching {
			break
		}
		if last.start < n.start {
			n.start, n.pattern = last.start, last.pattern
		}
		spans = spans[:len(spans)-1]
	}
	return append(spans, n)
}
