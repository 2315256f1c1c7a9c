package sealing

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// MaxKeys is the maximum number of keys in a file, and keyFileLimit its maximum
// size in bytes.
const (
	MaxKeys      = 8
	keyFileLimit = MaxKeys*(2*KeySize+2) + KeySize
)

// tempPattern is the name pattern of temporary files.
const tempPattern = ".key-*"

// LoadOrCreateKeys returns the keys in the file path, newest first. If the file
// does not exist, it durably creates one with a random key; concurrent callers all
// return the key of the first. The file contains one key per line in hexadecimal
// digits. LoadOrCreateKeys returns an error, and does not change the file, if users
// other than its owner can access it, if it is a symbolic link, or if it contains
// anything but keys.
func LoadOrCreateKeys(path string) ([][]byte, error) {
	keys, err := loadKeys(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return keys, err
	}
	if err := createKey(path); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("creating the key file %s: %w", path, err)
	}
	return loadKeys(path)
}

// AddKey adds a new key to an existing file and returns all keys, newest first.
// The change is atomic. The caller prevents concurrent changes of the file.
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

// DropOlderKeys removes all keys but the newest from the file, and removes
// temporary files of a crash. The caller prevents concurrent changes of the file.
func DropOlderKeys(path string) error {
	keys, err := loadKeys(path)
	if err != nil {
		return err
	}
	if err := replaceKeys(path, keys[:1]); err != nil {
		return err
	}
	left, err := filepath.Glob(filepath.Join(filepath.Dir(path), tempPattern))
	for _, name := range left {
		err = errors.Join(err, os.Remove(name))
	}
	return err
}

func loadKeys(path string) ([][]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("opening the key file: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("reading the key file: %w", err)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("the key file %s is not a regular file", path)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("the key file %s is open to others (mode %04o): anyone who can read it can decrypt every stored secret; run: chmod 600 %s",
			path, info.Mode().Perm(), path)
	}
	text, err := io.ReadAll(io.LimitReader(f, keyFileLimit))
	if err != nil {
		return nil, fmt.Errorf("reading the key file: %w", err)
	}
	keys, ok := parseKeys(string(text))
	if !ok {
		return nil, fmt.Errorf("the key file %s does not hold 1 to %d keys of %d hexadecimal digits; restore it from a backup", path, MaxKeys, 2*KeySize)
	}
	return keys, nil
}

// parseKeys parses 1 to MaxKeys keys.
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

// createKey writes a temporary file and links it to path, which fails if path
// exists.
func createKey(path string) (err error) {
	written, err := writeKeys(path, [][]byte{randomKey()})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.Remove(written)) }()
	if err := os.Link(written, path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// replaceKeys replaces the file atomically.
func replaceKeys(path string, keys [][]byte) error {
	written, err := writeKeys(path, keys)
	if err != nil {
		return fmt.Errorf("writing the key file: %w", err)
	}
	if err := os.Rename(written, path); err != nil {
		return errors.Join(fmt.Errorf("replacing the key file: %w", err), os.Remove(written))
	}
	return syncDir(filepath.Dir(path))
}

// writeKeys durably writes a temporary file next to path and returns its name.
func writeKeys(path string, keys [][]byte) (string, error) {
	f, err := os.CreateTemp(filepath.Dir(path), tempPattern) // mode 0600
	if err != nil {
		return "", err
	}
	for _, key := range keys {
		_, failed := fmt.Fprintf(f, "%x\n", key)
		err = errors.Join(err, failed)
	}
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return "", errors.Join(err, os.Remove(f.Name()))
	}
	return f.Name(), nil
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
