package auth

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

const macSize = 16 // bytes of a signature

// maxSigned is the maximum length of a signed text in bytes. The longest signed texts
// are cursors that contain a path.
const maxSigned = 16 << 10

// keys contains a key for each use, so that a text signed for one use is not valid
// for another.
type keys struct {
	link, stream, run, cursor, fingerprint []byte
	answers                                cipher.AEAD
}

func deriveKeys(root []byte) keys {
	derive := func(use string) []byte { return sum(root, []byte("stint/auth/v1/"+use)) }
	block, err := aes.NewCipher(derive("answer"))
	if err != nil {
		panic("auth: " + err.Error()) // fails only for a key of another size
	}
	gcm, err := cipher.NewGCM(block)
	if err != nil {
		panic("auth: " + err.Error())
	}
	return keys{link: derive("link"), stream: derive("stream"), run: derive("run"), cursor: derive("cursor"), fingerprint: derive("fingerprint"), answers: gcm}
}

// sum returns the MAC of the parts. It includes their lengths, so that different
// lists of parts never have the same input.
func sum(key []byte, parts ...[]byte) []byte {
	h := hmac.New(sha256.New, key)
	for _, p := range parts {
		var n [8]byte
		binary.BigEndian.PutUint64(n[:], uint64(len(p)))
		h.Write(n[:])
		h.Write(p)
	}
	return h.Sum(nil)
}

// sign returns the payload and its MAC as URL-safe text. The MAC also covers the bound
// values. The text does not contain them, so verify needs the same values.
func sign(key, payload []byte, bound ...[]byte) string {
	mac := sum(key, append(bound, payload)...)[:macSize]
	return base64.RawURLEncoding.EncodeToString(append(mac, payload...))
}

// verify returns the payload of a signed text. It returns false if the text was
// modified or if the bound values differ.
func verify(key []byte, text string, bound ...[]byte) ([]byte, bool) {
	if len(text) > maxSigned {
		return nil, false
	}
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(raw) < macSize || base64.RawURLEncoding.EncodeToString(raw) != text {
		return nil, false // also refuses other encodings of the same bytes
	}
	payload := raw[macSize:]
	return payload, hmac.Equal(raw[:macSize], sum(key, append(bound, payload)...)[:macSize])
}

func signJSON(key []byte, v any) (string, error) {
	payload, err := json.Marshal(v)
	if err != nil {
		return "", fmt.Errorf("sign: %w", err)
	}
	return sign(key, payload), nil
}

func verifyJSON(key []byte, text string, v any) bool {
	payload, ok := verify(key, text)
	return ok && json.Unmarshal(payload, v) == nil
}

// SignCursor returns a cursor that contains position, an encoded page boundary. The
// cursor is valid only for the same organisation and list. The text list identifies the
// list and its filters.
func (s *Service) SignCursor(org, list string, position []byte) string {
	return sign(s.keys.cursor, position, []byte(org), []byte(list))
}

// VerifyCursor returns the page boundary that a cursor contains. It returns false if
// the cursor was modified or belongs to another organisation or list.
func (s *Service) VerifyCursor(org, list, cursor string) ([]byte, bool) {
	return verify(s.keys.cursor, cursor, []byte(org), []byte(list))
}

// Fingerprint returns a keyed digest of the parts. Without the key, guesses of the parts
// cannot be checked against the digest.
func (s *Service) Fingerprint(parts ...[]byte) []byte { return sum(s.keys.fingerprint, parts...) }

// SealAnswer encrypts a response that is stored for replay, because it can contain
// a new token. OpenAnswer must be called with the same bound value.
func (s *Service) SealAnswer(plain []byte, bound string) ([]byte, error) {
	nonce := make([]byte, s.keys.answers.NonceSize(), s.keys.answers.NonceSize()+len(plain)+s.keys.answers.Overhead())
	if _, err := io.ReadFull(s.random, nonce); err != nil {
		return nil, fmt.Errorf("read random bytes to seal a response: %w", err)
	}
	return s.keys.answers.Seal(nonce, nonce, plain, []byte(bound)), nil
}

// OpenAnswer decrypts the result of SealAnswer.
func (s *Service) OpenAnswer(sealed []byte, bound string) ([]byte, error) {
	n := s.keys.answers.NonceSize()
	if len(sealed) < n {
		return nil, errors.New("open a stored response: truncated")
	}
	plain, err := s.keys.answers.Open(nil, sealed[:n], sealed[n:], []byte(bound))
	if err != nil {
		return nil, fmt.Errorf("open a stored response: %w", err)
	}
	return plain, nil
}
