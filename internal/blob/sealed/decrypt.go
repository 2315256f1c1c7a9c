package sealed

import (
	"crypto/cipher"
	"errors"
	"fmt"
	"io"

	"github.com/stint-dev/stint/internal/blob"
)

// errPastEnd reports that the requested block is after the last block of the object.
var errPastEnd = errors.New("sealed: past the end")

// decrypter decrypts a range of an object. With each block it reads one byte of
// the next, to know whether the block is the last.
type decrypter struct {
	io.Closer
	name  string
	r     io.Reader
	aead  cipher.AEAD
	nonce nonce
	block int64  // number of the next block
	ahead bool   // the last byte of buf is the first byte of the next block
	last  bool   // the last block was decrypted
	skip  int    // bytes before the range in the first block
	left  int64  // remaining bytes of the range; negative means all
	ready []byte // decrypted bytes that were not returned yet
	err   error
	buf   [sealedBlock + 1]byte
}

// Read implements io.Reader.
func (d *decrypter) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for len(d.ready) == 0 && d.err == nil {
		d.err = d.next()
	}
	if len(d.ready) == 0 {
		return 0, d.err
	}
	n := copy(p, d.ready)
	d.ready = d.ready[n:]
	return n, nil
}

// next decrypts the next block into ready. It returns io.EOF at the end of the
// range and after the last block.
func (d *decrypter) next() error {
	if d.left == 0 || d.last {
		return io.EOF
	}
	plain, err := d.decrypt()
	if err != nil {
		return err
	}
	plain = plain[min(d.skip, len(plain)):]
	d.skip = 0
	if d.left >= 0 {
		plain = plain[:min(d.left, int64(len(plain)))]
		d.left -= int64(len(plain))
	}
	d.ready = plain
	return nil
}

func (d *decrypter) decrypt() ([]byte, error) {
	have := 0
	if d.ahead {
		d.buf[0], have = d.buf[sealedBlock], 1
	}
	n, err := blob.ReadFull(d.r, d.buf[have:])
	n += have
	switch {
	case err != nil && !errors.Is(err, io.EOF):
		return nil, err
	case n == 0:
		return nil, errPastEnd
	}
	d.ahead = n == len(d.buf)
	d.last = !d.ahead
	d.nonce.set(d.block, d.last)
	plain, err := d.aead.Open(d.buf[:0], d.nonce[:], d.buf[:min(n, sealedBlock)], nil)
	if err != nil {
		return nil, fmt.Errorf("%s: %w: block %d cannot be decrypted", d.name, ErrTampered, d.block)
	}
	d.block++
	return plain, nil
}
