package format

const (
	WholeFile = 1 << 20   // files up to this many bytes are one chunk
	MinChunk  = 512 << 10 // larger files are cut into chunks of this size
	MaxChunk  = 2 << 20   // up to this, the last one excepted;
	midChunk  = 1 << 20   // past this size the cut is easier to reach
)

// The masks name the bits of the rolling hash that must be zero at a cut: more
// before midChunk, fewer after it, which narrows the spread of sizes.
const (
	strictMask = ^(^uint64(0) >> 22)
	easyMask   = ^(^uint64(0) >> 18)
)

// gear gives every byte a fixed random word. Changing it changes every digest
// of trees with large files.
var gear = func() (g [256]uint64) {
	x := uint64(0x5354494e54_c0de)
	for i := range g { // splitmix64
		x += 0x9e3779b97f4a7c15
		z := x
		z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
		z = (z ^ z>>27) * 0x94d049bb133111eb
		g[i] = z ^ z>>31
	}
	return g
}()

// cut gives the length of the first chunk of b, which holds the rest of the
// file or at least maxChunk bytes. It looks at content only, so that an
// insertion changes the chunks around it and no others.
func Cut(b []byte) int {
	if len(b) <= MinChunk {
		return len(b)
	}
	b = b[:min(len(b), MaxChunk)]
	var h uint64
	for _, c := range b[MinChunk-64 : MinChunk] {
		h = h<<1 + gear[c]
	}
	mid := min(len(b), midChunk)
	for i, c := range b[MinChunk:mid] {
		if h = h<<1 + gear[c]; h&strictMask == 0 {
			return MinChunk + i + 1
		}
	}
	for i, c := range b[mid:] {
		if h = h<<1 + gear[c]; h&easyMask == 0 {
			return mid + i + 1
		}
	}
	return len(b)
}
