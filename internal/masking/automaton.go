package masking

// automaton finds all occurrences of many patterns in one pass (Aho and
// Corasick, 1975). Its states are the prefixes of the patterns, numbered
// breadth first: 0 is the empty prefix, the children of a state are
// neighbours, and a shorter prefix has a smaller number. After a text it is
// in the state of the longest suffix of the text that is a prefix of a
// pattern. It is immutable.
//
// The shortest prefixes, where nearly all of a text is spent, have their
// transitions spelled out; the others have what they need to find them. So a
// step costs a look-up or two, and a state some twenty bytes.
type automaton struct {
	class  [256]uint8 // bytes that no pattern has are of one class, the others of one each
	stride int32      // classes
	dense  int32      // states with a row
	rows   []int32    // rows[stride*state+class] is the next state, for state < dense

	label []byte  // the last byte of the prefix
	first []int32 // the first child; the children end where those of the next state begin
	fail  []int32 // the longest proper suffix of the prefix that is a state
	match []int32 // length of the longest pattern that the prefix ends with, or 0
	hold  []int32 // length of the prefix if some pattern continues it; or 0, since then it is a match
}

// denseStates bounds the rows, which take up to 1 KiB each.
const denseStates = 512

// compile makes the automaton of patterns, which are sorted, distinct and not
// empty.
func compile(patterns []string) *automaton {
	states := 1
	for i, p := range patterns {
		states += len(p)
		if i > 0 {
			states -= common(p, patterns[i-1])
		}
	}
	a := &automaton{
		label: make([]byte, 1, states), first: make([]int32, 0, states+1),
		fail: make([]int32, states), match: make([]int32, states), hold: make([]int32, states),
	}
	a.number(patterns)
	a.classify()
	a.link()
	return a
}

// common is the length of the longest common prefix.
func common(a, b string) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

// group is a state under construction: the patterns from lo up to hi are
// those that begin with its prefix.
type group struct{ lo, hi int32 }

// number makes the states and their children, one length after the other.
func (a *automaton) number(patterns []string) {
	level := []group{{hi: int32(len(patterns))}}
	for depth := int32(0); len(level) > 0; depth++ {
		var longer []group
		for _, g := range level {
			state := len(a.first)
			a.first = append(a.first, int32(len(a.label)))
			if g.lo < g.hi && len(patterns[g.lo]) == int(depth) { // sorted: the shortest comes first
				a.match[state] = depth
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
				longer = append(longer, group{g.lo, end})
				g.lo = end
			}
		}
		level = longer
	}
	a.first = append(a.first, int32(len(a.label)))
}

// classify gives each byte that occurs a class of its own. When all do, none
// is left for the others, and none is needed.
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

// link finds, from short prefixes to long ones, where each goes on when no
// child fits.
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
			a.spellOut(s)
			a.dense = s + 1
		}
	}
}

// spellOut fills the row of s; that of its fail state is filled.
func (a *automaton) spellOut(s int32) {
	row := a.rows[a.stride*s : a.stride*(s+1)]
	if f := a.fail[s]; s != 0 {
		copy(row, a.rows[a.stride*f:a.stride*(f+1)])
	}
	for child := a.first[s]; child < a.first[s+1]; child++ {
		row[a.class[a.label[child]]] = child
	}
}

// next is the state after one more byte.
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

// span is a stretch of text that is to be masked.
type span struct{ start, end int }

// scan runs over text from the state s and adds what it finds to spans, which
// stay in order and apart: what overlaps or touches is joined. Positions
// count from at, that of the first byte of text; what begins before 0 is
// taken to begin there.
func scan[T string | []byte](a *automaton, s int32, text T, at int, spans []span) (int32, []span) {
	for i := range len(text) {
		s = a.next(s, text[i])
		if a.match[s] != 0 {
			end := at + i + 1
			spans = join(spans, span{max(0, end-int(a.match[s])), end})
		}
	}
	return s, spans
}

// join adds a span that ends after all others.
func join(spans []span, n span) []span {
	for len(spans) > 0 && spans[len(spans)-1].end >= n.start {
		n.start = min(n.start, spans[len(spans)-1].start)
		spans = spans[:len(spans)-1]
	}
	return append(spans, n)
}
