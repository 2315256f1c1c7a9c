package sealed

import (
	"crypto/cipher"
	"io"

	"github.com/stint-dev/stint/internal/blob"
)

// encrypter is an io.Reader that reads content from r and returns the encrypted
// object. It reads one byte more than a block, to detect the last block.
type encrypter struct {
	r     io.Reader
	aead  cipher.AEAD
	nonce nonce
	block int64 // number of the next block
	ahead bool  // the last byte of plain belongs to the next block
	done  bool  // the last block was encrypted
	err   error // the first error of r, or io.EOF after the last block
	ready []byte
	plain [blockSize + 1]byte
	out   [sealedBlock]byte
}

func newEncrypter(h *header, aead cipher.AEAD, r io.Reader) *encrypter {
	e := &encrypter{r: r, aead: aead}
	e.ready = append(e.out[:0], h[:]...)
	return e
}

// Read implements io.Reader.
func (e *encrypter) Read(p []byte) (int, error) {
	n := 0
	for n < len(p) {
		if len(e.ready) > 0 {
			c := copy(p[n:], e.ready)
			e.ready, n = e.ready[c:], n+c
			continue
		}
		if e.done && e.err == nil {
			e.err = io.EOF
		}
		if e.err != nil {
			break
		}
		if len(p)-n >= sealedBlock { // encrypt into p, without a copy
			n += len(e.next(p[n:n]))
		} else {
			e.ready = e.next(e.out[:0])
		}
	}
	if n > 0 || len(p) == 0 {
		return n, nil
	}
	return 0, e.err
}

// next appends the next encrypted block to dst, which has capacity for it.
func (e *encrypter) next(dst []byte) []byte {
	have := 0
	if e.ahead {
		e.plain[0], have = e.plain[blockSize], 1
	}
	n, err := blob.ReadFull(e.r, e.plain[have:])
	n += have
	if err != nil && err != io.EOF { //nolint:errorlint // a wrapped io.EOF is a failure of the reader
		e.err = err
		return nil
	}
	e.ahead = n == len(e.plain)
	e.done = !e.ahead
	e.nonce.set(e.block, e.done)
	e.block++
	return e.aead.Seal(dst, e.nonce[:], e.plain[:min(n, blockSize)], nil)
}
