package auth

import (
	"context"
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
	"time"

	"github.com/stint-dev/stint"
)

// How long what is handed out works.
const (
	LinkFor        = time.Hour
	StreamTokenFor = 5 * time.Minute
)

const macSize = 16 // bytes of each signature

// maxSigned bounds what is decoded at all: a cursor may hold a path.
const maxSigned = 16 << 10

// keys are derived so that what was signed for one use is no good for another.
type keys struct {
	link, stream, run, cursor, fingerprint []byte
	answers                                cipher.AEAD
}

func deriveKeys(root []byte) keys {
	derive := func(use string) []byte { return sum(root, []byte("stint/auth/v1/"+use)) }
	block, err := aes.NewCipher(derive("answer"))
	if err != nil {
		panic("auth: " + err.Error()) // the key has 32 bytes, which AES takes
	}
	gcm, err := cipher.NewGCM(block)
	if err != nil {
		panic("auth: " + err.Error())
	}
	return keys{link: derive("link"), stream: derive("stream"), run: derive("run"), cursor: derive("cursor"), fingerprint: derive("fingerprint"), answers: gcm}
}

// sum is the MAC of the parts, each with its length, so that no two lists of
// parts are alike.
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

// sign writes payload and its MAC, bound to the context, as URL-safe text.
func sign(key, payload []byte, bound ...[]byte) string {
	mac := sum(key, append(bound, payload)...)[:macSize]
	return base64.RawURLEncoding.EncodeToString(append(mac, payload...))
}

// verify gives back what sign took. One character changed, or other bounds,
// and it gives false.
func verify(key []byte, text string, bound ...[]byte) ([]byte, bool) {
	if len(text) > maxSigned {
		return nil, false
	}
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(raw) < macSize || base64.RawURLEncoding.EncodeToString(raw) != text {
		return nil, false // other spellings of the same bytes are refused too
	}
	payload := raw[macSize:]
	return payload, hmac.Equal(raw[:macSize], sum(key, append(bound, payload)...)[:macSize])
}

// Link is what a download link stands for.
type Link struct {
	OrgID     string            `json:"o"`
	Kind      stint.FileSetKind `json:"k"`
	FileSetID string            `json:"t"`
	VersionID string            `json:"v"`
	Format    string            `json:"f,omitempty"` // of the archive; empty for a tar.gz
	Expires   int64             `json:"e"`           // Unix seconds
}

// SignLink writes a link that works for LinkFor. Expires is set here.
func (s *Service) SignLink(l Link) (string, error) {
	l.Expires = s.now().Add(LinkFor).Unix()
	return signJSON(s.keys.link, l)
}

// VerifyLink reads a link; false when it was changed or has expired.
func (s *Service) VerifyLink(text string) (Link, bool) {
	var l Link
	ok := verifyJSON(s.keys.link, text, &l)
	return l, ok && s.now().Unix() < l.Expires
}

type streamGrant struct {
	OrgID   string `json:"o"`
	RunID   string `json:"r"`
	TokenID string `json:"t"`
	Expires int64  `json:"e"` // Unix milliseconds
}

// StreamToken writes a token that opens the event stream of one run for
// StreamTokenFor, and nothing else. It ends with the caller's own token.
func (s *Service) StreamToken(c Caller, runID string) (token string, expires stint.Time, err error) {
	expires = stint.TimeOf(s.now().Add(StreamTokenFor))
	token, err = signJSON(s.keys.stream, streamGrant{c.OrgID, runID, c.TokenID, expires.UnixMilli()})
	return token, expires, err
}

// AuthenticateStream finds who may read the stream of the run with that stream
// token, or gives ErrInvalidKey. The caller has the read scope alone.
func (s *Service) AuthenticateStream(ctx context.Context, token, runID string) (Caller, error) {
	var g streamGrant
	if !verifyJSON(s.keys.stream, token, &g) || g.RunID != runID || s.now().UnixMilli() >= g.Expires {
		return Caller{}, ErrInvalidKey
	}
	c, ok := s.cache.byID(g.TokenID, s.now())
	if !ok {
		var err error
		if c, err = s.live(ctx, g.OrgID, g.TokenID); err != nil {
			return Caller{}, err
		}
	}
	if c.OrgID != g.OrgID || !c.Can(stint.ScopeRead) {
		return Caller{}, ErrInvalidKey
	}
	c.Scopes = []string{stint.ScopeRead}
	return s.unexpired(c, s.now())
}

// SignCursor writes a position of a list as a cursor. It works for the same
// organisation and list alone; list names the filters too.
func (s *Service) SignCursor(org, list string, position []byte) string {
	return sign(s.keys.cursor, position, []byte(org), []byte(list))
}

// VerifyCursor gives back the position; false for a cursor of another
// organisation or list, or one that was changed or invented.
func (s *Service) VerifyCursor(org, list, cursor string) ([]byte, bool) {
	return verify(s.keys.cursor, cursor, []byte(org), []byte(list))
}

// Fingerprint is a keyed digest of the parts: equal for equal parts, and of no
// use to guess them from.
func (s *Service) Fingerprint(parts ...[]byte) []byte { return sum(s.keys.fingerprint, parts...) }

// SealAnswer encrypts an answer that is stored to be given again: it may hold
// a new token. bound is what the answer belongs to.
func (s *Service) SealAnswer(plain []byte, bound string) ([]byte, error) {
	nonce := make([]byte, s.keys.answers.NonceSize(), s.keys.answers.NonceSize()+len(plain)+s.keys.answers.Overhead())
	if _, err := io.ReadFull(s.random, nonce); err != nil {
		return nil, fmt.Errorf("no randomness to seal an answer: %w", err)
	}
	return s.keys.answers.Seal(nonce, nonce, plain, []byte(bound)), nil
}

// OpenAnswer decrypts what SealAnswer wrote.
func (s *Service) OpenAnswer(sealed []byte, bound string) ([]byte, error) {
	n := s.keys.answers.NonceSize()
	if len(sealed) < n {
		return nil, errors.New("open a stored answer: cut short")
	}
	plain, err := s.keys.answers.Open(nil, sealed[:n], sealed[n:], []byte(bound))
	if err != nil {
		return nil, fmt.Errorf("open a stored answer: %w", err)
	}
	return plain, nil
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
