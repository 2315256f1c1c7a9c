package sealed

import "fmt"

// maxSize bounds what an object may hold, so that sizes never overflow.
const maxSize = 1 << 60

// sizeSealed is how large content of n bytes is when it rests; unknown (less
// than 0) stays unknown.
func sizeSealed(n int64) (int64, error) {
	if n < 0 {
		return -1, nil
	}
	if n > maxSize {
		return 0, fmt.Errorf("an object of %d bytes is too large to be sealed", n)
	}
	blocks := max(1, (n+blockSize-1)/blockSize)
	return int64(headerSize) + n + blocks*tagSize, nil
}

// sizePlain is how much content a sealed object of that size holds; false for
// a size that no sealed object has.
func sizePlain(size int64) (int64, bool) {
	body := size - int64(headerSize)
	blocks, rest := body/sealedBlock, body%sealedBlock
	switch {
	case body < tagSize:
		return 0, false
	case rest == 0:
		return blocks * blockSize, true
	case rest < tagSize || rest == tagSize && blocks > 0:
		return 0, false // only the last block of nothing holds nothing
	}
	return blocks*blockSize + rest - tagSize, true
}

// start is where a block rests.
func start(block int64) int64 { return int64(headerSize) + block*sealedBlock }
