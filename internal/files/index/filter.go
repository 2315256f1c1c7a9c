package index

import (
	"encoding/binary"
	"math/bits"
)

// filter excludes most hashes that are not in a run, all but about 3 %, without
// access to the disk. It takes one byte per chunk and keeps the bits of one hash
// in one line of the processor's cache.
type filter []byte

const (
	filterLine  = 64 // bytes
	filterBits  = 5  // of a hash
	filterShare = 8  // bits per hash
)

// filterSize returns the bytes of a filter for n hashes.
func filterSize(n int) int { return (n*filterShare/(8*filterLine) + 1) * filterLine }

// line returns the line of h and the bits of h in it, nine for each.
func (f filter) line(h *Hash) (line []byte, places uint64) {
	lines := uint64(len(f) / filterLine)
	i, _ := bits.Mul64(binary.LittleEndian.Uint64(h[8:]), lines)
	return f[i*filterLine:][:filterLine], binary.LittleEndian.Uint64(h[16:])
}

func (f filter) add(h *Hash) {
	line, places := f.line(h)
	for range filterBits {
		line[places>>3&63] |= 1 << (places & 7)
		places >>= 9
	}
}

func (f filter) has(h *Hash) bool {
	line, places := f.line(h)
	for range filterBits {
		if line[places>>3&63]&(1<<(places&7)) == 0 {
			return false
		}
		places >>= 9
	}
	return true
}
