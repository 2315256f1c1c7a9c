package sealed

import (
	"crypto/cipher"
	"errors"
	"fmt"
	"io"
)

// errPastEnd says that there is no block where reading began.
var errPastEnd = errors.New("sealed: past the end")

// opener reads blocks of an object, each with one byte of the next, which
// tells that there is a next, and gives the content of a range.
type opener struct {
	io.Closer
	name  string
	r     io.Reader
	aead  cipher.AEAD
	place place
	block int64  // the next one's number
	ahead bool   // the last byte of sealed belongs to the next block
	last  bool   // the last block was opened
	skip  int    // bytes before the range in the first block
	left  int64  // bytes that may still be given; less than 0 is all
	ready []byte // opened, not given yet
	err   error
	seal  [sealedBlock + 1]byte
}

// Read gives the next bytes of the range.
func (o *opener) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for len(o.ready) == 0 && o.err == nil {
		o.err = o.next()
	}
	if len(o.ready) == 0 {
		return 0, o.err
	}
	n := copy(p, o.ready)
	o.ready = o.ready[n:]
	return n, nil
}

// next opens the next block. It fails with io.EOF where the range has ended,
// or the object, for which its last block stands.
func (o *opener) next() error {
	if o.left == 0 || o.last {
		return io.EOF
	}
	plain, err := o.open()
	if err != nil {
		return err
	}
	plain = plain[min(o.skip, len(plain)):]
	o.skip = 0
	if o.left >= 0 {
		plain = plain[:min(o.left, int64(len(plain)))]
		o.left -= int64(len(plain))
	}
	o.ready = plain
	return nil
}

func (o *opener) open() ([]byte, error) {
	have := 0
	if o.ahead {
		o.seal[0], have = o.seal[sealedBlock], 1
	}
	n, err := fill(o.r, o.seal[have:])
	n += have
	switch {
	case err != nil && !errors.Is(err, io.EOF):
		return nil, err
	case n == 0:
		return nil, errPastEnd
	}
	o.ahead = n == len(o.seal)
	o.last = !o.ahead
	o.place.set(o.block, o.last)
	plain, err := o.aead.Open(o.seal[:0], o.place[:], o.seal[:min(n, sealedBlock)], nil)
	if err != nil {
		return nil, fmt.Errorf("%s: %w: block %d does not open", o.name, ErrTampered, o.block)
	}
	o.block++
	return plain, nil
}

// fill reads until p is full, or fails. The error is io.EOF only where r ended;
// one that r calls unexpected stays an error.
func fill(r io.Reader, p []byte) (n int, err error) {
	for idle := 0; n < len(p) && err == nil; {
		var c int
		c, err = r.Read(p[n:])
		n += c
		if idle++; c > 0 {
			idle = 0
		} else if idle == 100 && err == nil {
			err = io.ErrNoProgress
		}
	}
	if n == len(p) {
		err = nil
	}
	return n, err
}
