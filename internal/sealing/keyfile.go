package sealing

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/stint-dev/stint/internal/privatefile"
)

// MaxKeys is the maximum number of keys in a key file. keyFileLimit is the maximum size
// of the file in bytes.
const (
	MaxKeys      = 8
	keyFileLimit = MaxKeys*(2*KeySize+2) + KeySize
)

// LoadOrCreateKeys returns the keys in the file path, newest first. If the file
// does not exist, it durably creates the file with a random key; concurrent callers all
// return the key of the first. The file contains one key per line in hexadecimal
// digits. LoadOrCreateKeys returns an error, and does not change the file, if users
// other than its owner can access it, if it is a symbolic link, or if it contains
// anything but keys.
func LoadOrCreateKeys(path string) ([][]byte, error) {
	keys, err := loadKeys(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return keys, err
	}
	err = privatefile.Create(path, formatKeys([][]byte{randomKey()}))
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("creating the key file %s: %w", path, err)
	}
	return loadKeys(path)
}

// AddKey adds a new key to an existing file and returns all keys, newest first.
// The change is atomic. The caller must prevent concurrent changes of the file.
func AddKey(path string) ([][]byte, error) {
	keys, err := loadKeys(path)
	if err != nil {
		return nil, err
	}
	if len(keys) == MaxKeys {
		return nil, fmt.Errorf("the key file %s has %d keys, which is the limit", path, MaxKeys)
	}
	keys = append([][]byte{randomKey()}, keys...)
	return keys, replaceKeys(path, keys)
}

// DropOlderKeys removes all keys but the newest from the file. It also removes
// temporary files that a crash left behind. The caller must prevent concurrent changes
// of the file.
func DropOlderKeys(path string) error {
	keys, err := loadKeys(path)
	if err != nil {
		return err
	}
	if err := replaceKeys(path, keys[:1]); err != nil {
		return err
	}
	left, err := filepath.Glob(privatefile.TemporaryPattern(path))
	for _, name := range left {
		err = errors.Join(err, os.Remove(name))
	}
	return err
}

func loadKeys(path string) ([][]byte, error) {
	text, err := privatefile.Read(path, keyFileLimit)
	if err != nil {
		return nil, fmt.Errorf("the key file, with which every stored secret can be decrypted: %w", err)
	}
	keys, ok := parseKeys(string(text))
	if !ok {
		return nil, fmt.Errorf("the key file %s does not hold 1 to %d keys of %d hexadecimal digits; restore it from a backup", path, MaxKeys, 2*KeySize)
	}
	return keys, nil
}

// parseKeys parses 1 to MaxKeys keys, one per line. ok is false if text contains
// anything else.
func parseKeys(text string) (keys [][]byte, ok bool) {
	for line := range strings.SplitSeq(strings.TrimSpace(text), "\n") {
		key, err := hex.DecodeString(strings.TrimSpace(line))
		if err != nil || len(key) != KeySize {
			return nil, false
		}
		keys = append(keys, key)
	}
	return keys, len(keys) <= MaxKeys
}

func randomKey() []byte {
	key := make([]byte, KeySize)
	rand.Read(key) // never fails
	return key
}

// replaceKeys replaces the file atomically.
func replaceKeys(path string, keys [][]byte) error {
	if err := privatefile.Replace(path, formatKeys(keys)); err != nil {
		return fmt.Errorf("replacing the key file: %w", err)
	}
	return nil
}

func formatKeys(keys [][]byte) []byte {
	var text []byte
	for _, key := range keys {
		text = fmt.Appendf(text, "%x\n", key)
	}
	return text
}
