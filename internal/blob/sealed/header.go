package sealed

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/stint-dev/stint/internal/blob"
	"github.com/stint-dev/stint/internal/sealing"
)

// ErrOtherKey says that the key of an object's number is not the one that the
// object is sealed under. It is no damage: the object opens with its own key.
var ErrOtherKey = errors.New("sealed: it is sealed under another key of the same number: restore the database that holds that key")

// ErrTampered says that an object is not what was put under its name: changed,
// cut, moved, or not sealed at all. It is a blob.ErrDamaged.
var ErrTampered = fmt.Errorf("sealed: this is not the object that was stored: %w", blob.ErrDamaged)

const (
	magic      = "\x89STINTe\n"
	version    = 2 // 1 has a longer salt in the place of the key's check value
	blockPower = 14
	numberAt   = len(magic) + 4
	checkAt    = numberAt + 4
	checkSize  = 8
	headerSize = 48 // of every version, so that sizes tell each other

	blockSize   = 1 << blockPower // bytes of content in a block
	tagSize     = 16
	sealedBlock = blockSize + tagSize
)

// header begins an object.
type header [headerSize]byte

// newHeader is a header with a salt of its own.
func newHeader(key sealing.DataKey) (h header, err error) {
	copy(h[:], magic)
	h[len(magic)], h[len(magic)+1] = version, blockPower
	binary.BigEndian.PutUint32(h[numberAt:], key.Number)
	check, err := checkValue(key)
	if err != nil {
		return h, err
	}
	copy(h[checkAt:], check)
	rand.Read(h[h.saltAt():]) // never fails
	return h, nil
}

// checkValue tells a key from others of its number, and nothing of the key. It
// is what PKCS #11 has as CKA_CHECK_VALUE; here it is derived as keys of objects
// are, but under an info of its own, which makes the two independent (RFC 5869,
// 3.2).
func checkValue(key sealing.DataKey) ([]byte, error) {
	check, err := hkdf.Key(sha256.New, key.Secret[:], nil, "stint key check", checkSize)
	if err != nil {
		return nil, fmt.Errorf("deriving the key's check value: %w", err)
	}
	return check, nil
}

func (h *header) version() byte { return h[len(magic)] }

// saltAt is where the salt begins, which reaches to the end.
func (h *header) saltAt() int {
	if h.version() == 1 {
		return checkAt
	}
	return checkAt + checkSize
}

// number is the number of the key that the object is sealed under, after check.
func (h *header) number() uint32 { return binary.BigEndian.Uint32(h[numberAt:]) }

// check refuses what newHeader does not make. That the rest is true shows when
// a block opens.
func (h *header) check() error {
	switch {
	case string(h[:len(magic)]) != magic:
		return fmt.Errorf("%w: it is not sealed", ErrTampered)
	case h.version() == 0 || h.version() > version || !bytes.Equal(h[len(magic)+1:numberAt], []byte{blockPower, 0, 0}):
		return fmt.Errorf("%w: its format is unknown", ErrTampered)
	case h.number() == 0:
		return fmt.Errorf("%w: it names no key", ErrTampered)
	}
	return nil
}

// checkKey holds a key to the check value, where the version has one.
func (h *header) checkKey(key sealing.DataKey) error {
	if h.version() == 1 {
		return nil
	}
	check, err := checkValue(key)
	if err == nil && !bytes.Equal(check, h[checkAt:checkAt+checkSize]) {
		err = fmt.Errorf("key %d: %w", key.Number, ErrOtherKey)
	}
	return err
}

// cipher makes the object's own cipher.
func (h *header) cipher(key sealing.DataKey, name string) (cipher.AEAD, error) {
	saltAt := h.saltAt()
	info := fmt.Sprintf("stint object v%d\x00%s%s", h.version(), h[:saltAt], name)
	own, err := hkdf.Key(sha256.New, key.Secret[:], h[saltAt:], info, sealing.KeySize)
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
