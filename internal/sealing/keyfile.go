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

// MaxKeys bounds the keys of a file, and keyFileLimit what is read of it.
const (
	MaxKeys      = 8
	keyFileLimit = MaxKeys*(2*KeySize+2) + KeySize
)

// aside is the pattern of files that are written before they get their name.
const aside = ".key-*"

// LoadOrCreateKeys reads the keys in the file path, newest first, or makes a
// random one where there is no such file; it is on disk before
// LoadOrCreateKeys returns. Of several callers that find no file, all get the
// key of the first. A file that others than its owner can touch, a symbolic
// link, or one that holds anything but keys is refused and left as it is. The
// file holds a key a line, as hexadecimal digits.
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

// AddKey puts a new key before those of an existing file and gives all of
// them, newest first. After a crash the file has the key or has not. The
// caller keeps others from changing the file meanwhile.
func AddKey(path string) ([][]byte, error) {
	keys, err := loadKeys(path)
	if err != nil {
		return nil, err
	}
	if len(keys) == MaxKeys {
		return nil, fmt.Errorf("the key file %s holds %d keys, which is the most", path, MaxKeys)
	}
	keys = append([][]byte{randomKey()}, keys...)
	return keys, replaceKeys(path, keys)
}

// DropOlderKeys leaves the newest key alone, in the file and in what a crash
// left beside it. The caller keeps others from changing the file meanwhile.
func DropOlderKeys(path string) error {
	keys, err := loadKeys(path)
	if err != nil {
		return err
	}
	if err := replaceKeys(path, keys[:1]); err != nil {
		return err
	}
	left, err := filepath.Glob(filepath.Join(filepath.Dir(path), aside))
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
		return nil, fmt.Errorf("the key file %s is no regular file", path)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("the key file %s is open to others (mode %04o): whoever can read it can open every stored secret; run: chmod 600 %s",
			path, info.Mode().Perm(), path)
	}
	text, err := io.ReadAll(io.LimitReader(f, keyFileLimit))
	if err != nil {
		return nil, fmt.Errorf("reading the key file: %w", err)
	}
	keys, ok := parseKeys(string(text))
	if !ok {
		return nil, fmt.Errorf("the key file %s holds no key of %d hexadecimal digits, or something else; restore it from a backup", path, 2*KeySize)
	}
	return keys, nil
}

// parseKeys reads 1 to MaxKeys keys.
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

// createKey writes a whole file aside, then gives it its name in one step
// that fails where the name is taken.
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

// replaceKeys changes the file in one step.
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

// writeKeys writes a file beside path, durably, and gives its name.
func writeKeys(path string, keys [][]byte) (string, error) {
	f, err := os.CreateTemp(filepath.Dir(path), aside) // mode 0600
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
