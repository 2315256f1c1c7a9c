package app

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/stint-dev/stint/internal/blob"
	"github.com/stint-dev/stint/internal/blob/localfs"
	"github.com/stint-dev/stint/internal/blob/s3"
	"github.com/stint-dev/stint/internal/blob/sealed"
	"github.com/stint-dev/stint/internal/config"
	"github.com/stint-dev/stint/internal/files"
)

// sealedPart is the part of the storage where encrypted objects rest. Their
// place tells that they are encrypted, so nothing has to be looked into.
const sealedPart = "sealed"

// storage is where files rest.
type storage struct {
	all blob.Store // reads everything, and writes what is not confidential
	// sealed writes what is confidential: always encrypted.
	sealed blob.Store
}

// openStorage opens the storage as the encryption of files wants it. What was
// stored before the setting changed stays readable, unless it is strict.
func (s *server) openStorage(ctx context.Context) (storage, error) {
	below, err := s.openBlobs(ctx, sealedPart)
	if err != nil {
		return storage{}, err
	}
	encrypted := sealed.New(below, s.keyring)
	if s.c.EncryptStorage == config.EncryptStrict {
		return storage{encrypted, encrypted}, nil
	}
	plain, err := s.openBlobs(ctx, "")
	if err != nil {
		return storage{}, err
	}
	secret := sealed.Mixed{Primary: encrypted, Secondary: plain, Unique: files.IsUniqueKey}
	if s.c.EncryptStorage == config.EncryptOff {
		open := sealed.Mixed{Primary: plain, Secondary: encrypted, Unique: files.IsUniqueKey}
		return storage{open.WithLinks(), secret}, nil
	}
	return storage{secret, secret}, nil
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
	left, err := b.RemoveAbandoned(ctx, time.Now().Add(-uploadAge))
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
