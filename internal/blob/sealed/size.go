package sealed

import "fmt"

// maxSize bounds the content of an object, so that sizes do not overflow.
const maxSize = 1 << 60

// sizeSealed returns the stored size of n bytes of content, or -1 if n is
// negative, which means unknown.
func sizeSealed(n int64) (int64, error) {
	if n < 0 {
		return -1, nil
	}
	if n > maxSize {
		return 0, fmt.Errorf("an object of %d bytes is too large to be encrypted", n)
	}
	blocks := max(1, (n+blockSize-1)/blockSize)
	return int64(headerSize) + n + blocks*tagSize, nil
}

// sizePlain returns the content size of an object of the given stored size. It
// returns false if no object has that size.
func sizePlain(size int64) (int64, bool) {
	body := size - int64(headerSize)
	blocks, rest := body/sealedBlock, body%sealedBlock
	switch {
	case body < tagSize:
		return 0, false
	case rest == 0:
		return blocks * blockSize, true
	case rest < tagSize || rest == tagSize && blocks > 0:
		return 0, false // only the block of empty content is empty
	}
	return blocks*blockSize + rest - tagSize, true
}

// start returns the offset of a block.
func start(block int64) int64 { return int64(headerSize) + block*sealedBlock }
