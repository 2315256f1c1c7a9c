package sealed

import "fmt"

// maxSize is the maximum content size of an object in bytes. It prevents overflows.
const maxSize = 1 << 60

// sizeSealed returns the stored size of n bytes of content. A negative n means that
// the size is unknown; sizeSealed then returns -1. If n exceeds maxSize, it returns
// an error.
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
		return 0, false // only an object without content has an empty block
	}
	return blocks*blockSize + rest - tagSize, true
}

// start returns the offset of a block in the stored object.
func start(block int64) int64 { return int64(headerSize) + block*sealedBlock }
