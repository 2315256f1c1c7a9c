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
// where the first two are authenticated along with the owner.
const (
	sealVersion = 1
	nameSize    = 8
	headerSize  = 1 + nameSize
)

// Errors of Open.
var (
	// ErrUnknownKey: sealed under a key that the Sealer was not given.
	ErrUnknownKey = errors.New("sealing: sealed under a key that is not here")
	// ErrDamaged: no sealed text, a changed one, or one of another owner.
	ErrDamaged = errors.New("sealing: damaged, or sealed for another owner")
)

// Sealer encrypts small texts with AES-256-GCM under a random nonce. One key
// is good for 2³² texts. It is safe for concurrent use.
type Sealer struct {
	primary sealKey
	keys    map[[nameSize]byte]sealKey
}

type sealKey struct {
	name [nameSize]byte
	aead cipher.AEAD
}

// NewSealer seals under primary and opens what was sealed under primary or
// one of the older keys; each is KeySize bytes. To rotate, make a new key the
// primary and keep the former among the older until all is sealed anew.
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

// Seal encrypts plain for the owner that aad names; only who names the same
// owner can open it.
func (s *Sealer) Seal(plain, aad []byte) ([]byte, error) {
	header := append([]byte{sealVersion}, s.primary.name[:]...)
	sealed := s.primary.aead.Seal(nil, nil, plain, append(bytes.Clone(header), aad...))
	return append(header, sealed...), nil
}

// Open decrypts what Seal gave. Its errors are ErrUnknownKey and ErrDamaged.
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

// IsCurrent reports whether sealed is sealed under the primary key, so that a
// rotation knows what it has to seal anew.
func (s *Sealer) IsCurrent(sealed []byte) bool {
	return len(sealed) >= headerSize && sealed[0] == sealVersion && bytes.Equal(sealed[1:headerSize], s.primary.name[:])
}

// Format tells nothing, whatever the verb.
func (s *Sealer) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte("sealing.Sealer")) }
