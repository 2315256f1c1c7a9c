package format

// Sizes of chunks, in bytes.
const (
	WholeFile = 1 << 20   // files up to this many bytes are one chunk
	MinChunk  = 512 << 10 // a larger file's chunks are larger than this, except the last one
	MaxChunk  = 2 << 20   // maximum size of a chunk
	midChunk  = 1 << 20   // from this size on, a cut is more likely
)

// The masks select the bits of the rolling hash that must be zero at a cut. The mask
// before midChunk has more bits than the mask after it, so that the sizes of chunks
// vary less.
const (
	strictMask = ^(^uint64(0) >> 22)
	easyMask   = ^(^uint64(0) >> 18)
)

// gear maps each byte to a fixed random word. Changing the words changes the
// digests of most trees with files of more than WholeFile bytes.
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

// Cut returns the length of the first chunk of b. b must hold the rest of the file or
// at least MaxChunk bytes. Cut points depend only on the content, so an insertion
// into a file changes only the chunks around it.
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
