package bench

import "slices"

// rounds is how often a rate and its anchor are measured in turn, so that both
// see the same good and bad moments of the machine.
const rounds = 3

// turn is a rate and what the anchor gave right before.
type turn struct{ rate, anchor float64 }

// middle is the turn with the median ratio.
func middle(turns []turn) turn {
	sorted := slices.SortedFunc(slices.Values(turns), func(a, b turn) int {
		switch x, y := share(a.rate, a.anchor), share(b.rate, b.anchor); {
		case x < y:
			return -1
		case x > y:
			return 1
		}
		return 0
	})
	return sorted[(len(sorted)-1)/2]
}
