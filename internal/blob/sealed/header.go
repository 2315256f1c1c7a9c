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

// ErrOtherKey reports that an object was encrypted under a different key that has
// the same number. The object is not damaged and can be read with its own key.
var ErrOtherKey = errors.New("sealed: it is sealed under another key of the same number: restore the database that holds that key")

// ErrTampered reports that an object is not the one that was stored under its
// name: it was changed, truncated, moved, or never encrypted. It wraps
// blob.ErrDamaged.
var ErrTampered = fmt.Errorf("sealed: this is not the object that was stored: %w", blob.ErrDamaged)

const (
	magic      = "\x89STINTe\n"
	version    = 2 // version 1 has a longer salt and no check value of the key
	blockPower = 14
	numberAt   = len(magic) + 4
	checkAt    = numberAt + 4
	checkSize  = 8
	headerSize = 48 // the same in every version, so that sizes can be computed

	blockSize   = 1 << blockPower // bytes of content in a block
	tagSize     = 16
	sealedBlock = blockSize + tagSize
)

// header is the beginning of an encrypted object: the magic number, the format's
// version and block size, the number and check value of the key, and the salt.
type header [headerSize]byte

// newHeader returns a header with a random salt.
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

// checkValue returns a value that distinguishes keys of the same number without
// revealing them, like CKA_CHECK_VALUE of PKCS #11. It is derived by HKDF like the
// keys of objects, but with another info value, so that it is independent of those
// keys (RFC 5869, 3.2).
func checkValue(key sealing.DataKey) ([]byte, error) {
	check, err := hkdf.Key(sha256.New, key.Secret[:], nil, "stint key check", checkSize)
	if err != nil {
		return nil, fmt.Errorf("deriving the key's check value: %w", err)
	}
	return check, nil
}

func (h *header) version() byte { return h[len(magic)] }

// saltAt returns the offset of the salt, which extends to the end of the header.
func (h *header) saltAt() int {
	if h.version() == 1 {
		return checkAt
	}
	return checkAt + checkSize
}

// number returns the number of the object's key. The header must be valid.
func (h *header) number() uint32 { return binary.BigEndian.Uint32(h[numberAt:]) }

// check returns ErrTampered if the magic number, the version, the block size, or
// the key's number is invalid. The header is authenticated when a block is
// decrypted.
func (h *header) check() error {
	switch {
	case string(h[:len(magic)]) != magic:
		return fmt.Errorf("%w: it is not encrypted", ErrTampered)
	case h.version() == 0 || h.version() > version || !bytes.Equal(h[len(magic)+1:numberAt], []byte{blockPower, 0, 0}):
		return fmt.Errorf("%w: its format is unknown", ErrTampered)
	case h.number() == 0:
		return fmt.Errorf("%w: it names no key", ErrTampered)
	}
	return nil
}

// checkKey returns ErrOtherKey if the key does not match the header's check value.
// A header of version 1 has no check value, so every key passes.
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

// cipher returns the cipher of the object that is stored under name.
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

// nonce contains the number of a block and a flag that marks the last block.
type nonce [12]byte

func (n *nonce) set(block int64, last bool) {
	binary.BigEndian.PutUint64(n[3:], uint64(block))
	n[11] = 0
	if last {
		n[11] = 1
	}
}
