package secret

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

// keyFileLimit bounds what is read of a key file: digits and white space.
const keyFileLimit = 4 * KeySize

// LoadOrCreateKey reads the key in the file path, or makes a random one where
// there is no such file; it is on disk before LoadOrCreateKey returns. Of
// several callers that find no file, all get the key of the first. A file
// that others than its owner can touch, a symbolic link, or one that holds no
// key is refused and left as it is. The file holds the key as hexadecimal
// digits.
func LoadOrCreateKey(path string) ([]byte, error) {
	key, err := loadKey(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return key, err
	}
	if err := createKey(path); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("creating the key file %s: %w", path, err)
	}
	return loadKey(path)
}

func loadKey(path string) ([]byte, error) {
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
	key, err := hex.DecodeString(strings.TrimSpace(string(text)))
	if err != nil || len(key) != KeySize {
		return nil, fmt.Errorf("the key file %s holds no key of %d hexadecimal digits; restore it from a backup", path, 2*KeySize)
	}
	return key, nil
}

// createKey writes a whole file aside, then gives it its name in one step
// that fails where the name is taken.
func createKey(path string) (err error) {
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, ".key-*") // mode 0600
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.Remove(f.Name())) }()
	key := make([]byte, KeySize)
	rand.Read(key) // never fails
	_, err = fmt.Fprintf(f, "%x\n", key)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Link(f.Name(), path); err != nil {
		return err
	}
	return syncDir(dir)
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// DataKey is a key that data is encrypted under. An owner's keys are numbered
// from 1; the one with the greatest number is current.
type DataKey struct {
	Number uint32
	Secret [KeySize]byte
}

// Format tells the number, whatever the verb.
func (k DataKey) Format(f fmt.State, _ rune) { fmt.Fprintf(f, "secret.DataKey(%d)", k.Number) }
