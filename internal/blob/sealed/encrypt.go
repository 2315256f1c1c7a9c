package sealed

import (
	"crypto/cipher"
	"io"
)

// sealer reads content and gives the object. It reads one byte ahead, to know
// the last block.
type sealer struct {
	r     io.Reader
	aead  cipher.AEAD
	place place
	block int64 // the next one's number
	ahead bool  // plain[0] belongs to the next block
	done  bool  // the last block was sealed
	err   error // of r
	ready []byte
	plain [blockSize + 1]byte
	out   [sealedBlock]byte
}

func newSealer(h *header, aead cipher.AEAD, r io.Reader) *sealer {
	s := &sealer{r: r, aead: aead}
	s.ready = append(s.out[:0], h[:]...)
	return s
}

// Read gives the next bytes of the object.
func (s *sealer) Read(p []byte) (int, error) {
	n := 0
	for n < len(p) {
		if len(s.ready) > 0 {
			c := copy(p[n:], s.ready)
			s.ready, n = s.ready[c:], n+c
			continue
		}
		if s.done && s.err == nil {
			s.err = io.EOF
		}
		if s.err != nil {
			break
		}
		if len(p)-n >= sealedBlock { // spares a copy
			n += len(s.next(p[n:n]))
		} else {
			s.ready = s.next(s.out[:0])
		}
	}
	if n > 0 || len(p) == 0 {
		return n, nil
	}
	return 0, s.err
}

// next seals the next block into what dst has room for.
func (s *sealer) next(dst []byte) []byte {
	have := 0
	if s.ahead {
		s.plain[0], have = s.plain[blockSize], 1
	}
	n, err := fill(s.r, s.plain[have:])
	n += have
	if err != nil && err != io.EOF { //nolint:errorlint // one that is wrapped is a fault of the reader
		s.err = err
		return nil
	}
	s.ahead = n == len(s.plain)
	s.done = !s.ahead
	s.place.set(s.block, s.done)
	s.block++
	return s.aead.Seal(dst, s.place[:], s.plain[:min(n, blockSize)], nil)
}
