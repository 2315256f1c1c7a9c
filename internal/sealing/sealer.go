package sealing

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha256"
	"errors"
	"fmt"
)

// KeySize is the length of a key, in bytes.
const KeySize = 32

// A sealed text is
//
//	version (1 byte) | key's name (8 bytes) | nonce (12 bytes) | ciphertext | tag (16 bytes)
//
// The version and the key's name are authenticated together with the owner.
const (
	sealVersion = 1
	nameSize    = 8
	headerSize  = 1 + nameSize
)

// Errors of Open.
var (
	// ErrUnknownKey reports that a text is sealed under a key that the Sealer does
	// not have.
	ErrUnknownKey = errors.New("sealing: sealed under an unknown key")
	// ErrDamaged reports that a text is not sealed, was changed, or belongs to
	// another owner.
	ErrDamaged = errors.New("sealing: damaged, or sealed for another owner")
)

// Sealer encrypts small texts with AES-256-GCM and random nonces. A key must not
// encrypt more than 2³² texts. A Sealer is safe for concurrent use.
type Sealer struct {
	primary sealKey
	keys    map[[nameSize]byte]sealKey
}

type sealKey struct {
	name [nameSize]byte
	aead cipher.AEAD
}

// NewSealer returns a Sealer that seals under primary and opens texts that were
// sealed under primary or an older key. Each key has KeySize bytes. To rotate,
// pass a new primary and the previous one as older, until all texts were resealed.
func NewSealer(primary []byte, older ...[]byte) (*Sealer, error) {
	s := &Sealer{keys: map[[nameSize]byte]sealKey{}}
	for i, key := range append([][]byte{primary}, older...) {
		k, err := newSealKey(key)
		if err != nil {
			return nil, err
		}
		if i == 0 {
			s.primary = k
		}
		s.keys[k.name] = k
	}
	return s, nil
}

func newSealKey(key []byte) (sealKey, error) {
	if len(key) != KeySize {
		return sealKey{}, fmt.Errorf("sealing: a key has %d bytes, not %d", KeySize, len(key))
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return sealKey{}, err
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return sealKey{}, err
	}
	digest := sha256.Sum256(append([]byte("stint key name\x00"), key...))
	return sealKey{name: [nameSize]byte(digest[:nameSize]), aead: aead}, nil
}

// Seal encrypts plain. aad identifies the owner of the text; it is authenticated but
// not stored, and Open requires the same aad.
func (s *Sealer) Seal(plain, aad []byte) ([]byte, error) {
	header := append([]byte{sealVersion}, s.primary.name[:]...)
	sealed := s.primary.aead.Seal(nil, nil, plain, append(bytes.Clone(header), aad...))
	return append(header, sealed...), nil
}

// Open decrypts the result of Seal. Its errors are ErrUnknownKey and ErrDamaged.
func (s *Sealer) Open(sealed, aad []byte) ([]byte, error) {
	if len(sealed) < headerSize || sealed[0] != sealVersion {
		return nil, ErrDamaged
	}
	key, ok := s.keys[[nameSize]byte(sealed[1:headerSize])]
	if !ok {
		return nil, ErrUnknownKey
	}
	header := bytes.Clone(sealed[:headerSize])
	plain, err := key.aead.Open(nil, nil, sealed[headerSize:], append(header, aad...))
	if err != nil {
		return nil, ErrDamaged
	}
	return plain, nil
}

// IsCurrent reports whether sealed is sealed under the primary key. A rotation of the
// installation's key reseals all other texts.
func (s *Sealer) IsCurrent(sealed []byte) bool {
	return len(sealed) >= headerSize && sealed[0] == sealVersion && bytes.Equal(sealed[1:headerSize], s.primary.name[:])
}

// Format implements fmt.Formatter. It writes no keys, for every verb.
func (s *Sealer) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte("sealing.Sealer")) }
