package sealed

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"github.com/stint-dev/stint/internal/blob"
	"github.com/stint-dev/stint/internal/secret"
)

// ErrTampered says that an object is not what was put under its name: changed,
// cut, moved, or not sealed at all. It is a blob.ErrDamaged.
var ErrTampered = fmt.Errorf("sealed: this is not the object that was stored: %w", blob.ErrDamaged)

const (
	magic      = "\x89STINTe\n"
	version    = 1
	blockPower = 14
	saltSize   = 32
	numberAt   = len(magic) + 4
	saltAt     = numberAt + 4
	headerSize = saltAt + saltSize

	blockSize   = 1 << blockPower // bytes of content in a block
	tagSize     = 16
	sealedBlock = blockSize + tagSize
)

// header begins an object.
type header [headerSize]byte

// newHeader is a header with a salt of its own.
func newHeader(number uint32) (h header) {
	copy(h[:], magic)
	h[len(magic)], h[len(magic)+1] = version, blockPower
	binary.BigEndian.PutUint32(h[numberAt:], number)
	rand.Read(h[saltAt:]) // never fails
	return h
}

// number is the number of the key that the object is sealed under, after check.
func (h *header) number() uint32 { return binary.BigEndian.Uint32(h[numberAt:]) }

// check refuses what newHeader does not make. That the rest is true shows when
// a block opens.
func (h *header) check() error {
	switch {
	case string(h[:len(magic)]) != magic:
		return fmt.Errorf("%w: it is not sealed", ErrTampered)
	case !bytes.Equal(h[len(magic):numberAt], []byte{version, blockPower, 0, 0}):
		return fmt.Errorf("%w: its format is unknown", ErrTampered)
	case h.number() == 0:
		return fmt.Errorf("%w: it names no key", ErrTampered)
	}
	return nil
}

// cipher makes the object's own cipher.
func (h *header) cipher(key secret.DataKey, name string) (cipher.AEAD, error) {
	info := "stint object v1\x00" + string(h[:saltAt]) + name
	own, err := hkdf.Key(sha256.New, key.Secret[:], h[saltAt:], info, secret.KeySize)
	if err != nil {
		return nil, fmt.Errorf("deriving the object's key: %w", err)
	}
	block, err := aes.NewCipher(own)
	if err != nil {
		return nil, fmt.Errorf("deriving the object's key: %w", err)
	}
	return cipher.NewGCM(block)
}

// place is a nonce: the place of a block, and whether it is the last.
type place [12]byte

func (p *place) set(block int64, last bool) {
	binary.BigEndian.PutUint64(p[3:], uint64(block))
	p[11] = 0
	if last {
		p[11] = 1
	}
}
