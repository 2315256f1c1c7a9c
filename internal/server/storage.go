package server

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/stint-dev/stint/internal/blob"
	"github.com/stint-dev/stint/internal/blob/localfs"
	"github.com/stint-dev/stint/internal/blob/sealed"
	"github.com/stint-dev/stint/internal/config"
	"github.com/stint-dev/stint/internal/keyring"
)

// sealedFolder is the part of the storage where encrypted objects rest. Their
// place tells that they are encrypted, so nothing has to be looked into.
const sealedFolder = "sealed"

// openStorage opens the storage as the encryption of files wants it. What was
// stored before the setting changed stays readable, unless it is strict.
func openStorage(c *config.Config, d *dataFolder, keys *keyring.Keyring) (blob.Store, error) {
	if c.EncryptStorage == config.EncryptOff {
		return openPlain(c, d, keys)
	}
	below, err := openBlobs(c, d, sealedFolder)
	if err != nil {
		return nil, err
	}
	encrypted := sealed.New(below, keys)
	if c.EncryptStorage == config.EncryptStrict {
		return encrypted, nil
	}
	plain, err := openBlobs(c, d, "")
	if err != nil {
		return nil, err
	}
	return sealed.Mixed{Writes: encrypted, Older: plain}, nil
}

// openPlain opens a storage that encrypts nothing, with what was encrypted
// before.
func openPlain(c *config.Config, d *dataFolder, keys *keyring.Keyring) (blob.Store, error) {
	plain, err := openBlobs(c, d, "")
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(filepath.Join(storageFolder(c, d), sealedFolder)); errors.Is(err, fs.ErrNotExist) {
		return plain, nil
	} else if err != nil {
		return nil, fmt.Errorf("open storage: %w", err)
	}
	below, err := openBlobs(c, d, sealedFolder)
	if err != nil {
		return nil, err
	}
	return sealed.Mixed{Writes: plain, Older: sealed.New(below, keys)}, nil
}

// openBlobs opens the storage, or a part of it.
func openBlobs(c *config.Config, d *dataFolder, part string) (blob.Store, error) {
	if strings.Contains(c.Storage, "://") {
		return nil, fmt.Errorf("the storage %s is not supported by this build; name a folder with --storage, or leave it out", redact(c.Storage))
	}
	s, err := localfs.Open(filepath.Join(storageFolder(c, d), part))
	if err != nil {
		return nil, fmt.Errorf("open storage: %w", err)
	}
	return s, nil
}

func storageFolder(c *config.Config, d *dataFolder) string {
	if c.Storage != "" {
		return c.Storage
	}
	return d.join("blobs")
}
