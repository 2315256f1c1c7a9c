package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/stint-dev/stint/internal/blob"
	"github.com/stint-dev/stint/internal/blob/localfs"
	"github.com/stint-dev/stint/internal/blob/s3"
	"github.com/stint-dev/stint/internal/blob/sealed"
	"github.com/stint-dev/stint/internal/config"
)

// sealedPart is the part of the storage where encrypted objects rest. Their
// place tells that they are encrypted, so nothing has to be looked into.
const sealedPart = "sealed"

// openStorage opens the storage as the encryption of files wants it. What was
// stored before the setting changed stays readable, unless it is strict.
func (s *server) openStorage(ctx context.Context) (blob.Store, error) {
	if s.c.EncryptStorage == config.EncryptOff {
		return s.openPlain(ctx)
	}
	below, err := s.openBlobs(ctx, sealedPart)
	if err != nil {
		return nil, err
	}
	encrypted := sealed.New(below, s.keyring)
	if s.c.EncryptStorage == config.EncryptStrict {
		return encrypted, nil
	}
	plain, err := s.openBlobs(ctx, "")
	if err != nil {
		return nil, err
	}
	return sealed.Mixed{Writes: encrypted, Older: plain}, nil
}

// openPlain opens a storage that encrypts nothing, with what was encrypted
// before.
func (s *server) openPlain(ctx context.Context) (blob.Store, error) {
	plain, err := s.openBlobs(ctx, "")
	if err != nil {
		return nil, err
	}
	if known, err := s.wasSealed(); err != nil || !known {
		return plain, err
	}
	below, err := s.openBlobs(ctx, sealedPart)
	if err != nil {
		return nil, err
	}
	for _, err := range below.List(ctx, "") { // a bucket tells only by what is in it
		if err != nil {
			return nil, fmt.Errorf("look for encrypted files: %w", err)
		}
		return sealed.Mixed{Writes: plain, Older: sealed.New(below, s.keyring)}, nil
	}
	return plain, nil
}

// wasSealed is false where nothing can have been encrypted before.
func (s *server) wasSealed() (bool, error) {
	if s.inBucket() {
		return true, nil
	}
	_, err := os.Stat(filepath.Join(s.storageFolder(), sealedPart))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("open storage: %w", err)
	}
	return true, nil
}

func (s *server) inBucket() bool { return strings.HasPrefix(s.c.Storage, s3.Scheme) }

// openBlobs opens the bucket that the configuration names, else a folder, or a
// part of it. It is closed with the server.
func (s *server) openBlobs(ctx context.Context, part string) (blob.Store, error) {
	if s.inBucket() {
		return s.openBucket(ctx, part)
	}
	b, err := localfs.Open(filepath.Join(s.storageFolder(), part))
	if err != nil {
		return nil, fmt.Errorf("open storage: %w", err)
	}
	s.closeWith(b.Close)
	return b, nil
}

func (s *server) storageFolder() string {
	if s.c.Storage != "" {
		return s.c.Storage
	}
	return s.data.join("blobs")
}

// uploadAge is how old an upload must be that nobody will complete any more.
const uploadAge = 24 * time.Hour

// openBucket opens a bucket and drops what crashed servers have left there. A
// bucket that does not let us look for it works all the same.
func (s *server) openBucket(ctx context.Context, part string) (blob.Store, error) {
	b, err := s3.Open(ctx, s3.Config{URL: s.c.Storage, Part: part})
	if err != nil {
		return nil, fmt.Errorf("open storage: %w", err)
	}
	s.closeWith(b.Close)
	if part != "" {
		return b, nil
	}
	s.log.Info("files rest in a bucket", "bucket", b.Bucket(), "endpoint", b.Endpoint())
	left, err := b.Abandoned(ctx, time.Now().Add(-uploadAge))
	if err != nil {
		s.log.Warn("abandoned uploads may take room in the bucket", "error", err)
	} else if left > 0 {
		s.log.Info("abandoned uploads were dropped", "uploads", left)
	}
	return b, nil
}

// Folder is a storage in a folder, by itself, for measuring.
type Folder interface {
	blob.Store
	Close() error
}

// OpenFolder opens a folder as a storage; it is made when it is missing.
func OpenFolder(dir string) (Folder, error) {
	s, err := localfs.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("open storage: %w", err)
	}
	return s, nil
}
