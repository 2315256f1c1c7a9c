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

// sealedPart is the part of the storage with encrypted objects. Because they are stored
// separately, a reader need not inspect an object to know whether it is encrypted.
const sealedPart = "sealed"

// storage contains the stores for files. Both read all objects.
type storage struct {
	all    blob.Store // encrypts new objects if EncryptStorage is not off
	sealed blob.Store // encrypts new objects
}

// openStorage opens the storage according to EncryptStorage. Objects that were stored
// with another setting stay readable, except that EncryptStrict does not read objects
// that are not encrypted.
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

// openBlobs opens a part of the configured bucket or folder; "" is the whole. The store
// is closed with the server.
func (s *server) openBlobs(ctx context.Context, part string) (blob.Store, error) {
	if s.inBucket() {
		return s.openBucket(ctx, part)
	}
	b, err := localfs.Open(filepath.Join(s.storageFolder(), part))
	if err != nil {
		return nil, fmt.Errorf("open the storage: %w", err)
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

// uploadAge is the age after which an incomplete upload counts as abandoned.
const uploadAge = 24 * time.Hour

// openBucket opens a part of the configured bucket; "" is the whole. In the whole bucket
// it also removes the incomplete uploads of crashed servers. If this removal fails, for
// example for lack of permission, openBucket only logs the error.
func (s *server) openBucket(ctx context.Context, part string) (blob.Store, error) {
	b, err := s3.Open(ctx, s3.Config{URL: s.c.Storage, Part: part})
	if err != nil {
		return nil, fmt.Errorf("open the storage: %w", err)
	}
	s.closeWith(b.Close)
	if part != "" {
		return b, nil
	}
	s.log.Info("storing files in a bucket", "bucket", b.Bucket(), "endpoint", b.Endpoint())
	left, err := b.RemoveAbandoned(ctx, time.Now().Add(-uploadAge))
	if err != nil {
		s.log.Warn("cannot remove abandoned uploads from the bucket", "error", err)
	} else if left > 0 {
		s.log.Info("removed abandoned uploads from the bucket", "uploads", left)
	}
	return b, nil
}
