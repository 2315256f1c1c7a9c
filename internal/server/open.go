package server

import (
	"context"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/blob"
	"github.com/stint-dev/stint/internal/blob/localfs"
	"github.com/stint-dev/stint/internal/blob/s3"
	"github.com/stint-dev/stint/internal/config"
	"github.com/stint-dev/stint/internal/notify"
	"github.com/stint-dev/stint/internal/notify/inproc"
	"github.com/stint-dev/stint/internal/notify/pgnotify"
	"github.com/stint-dev/stint/internal/secret"
	"github.com/stint-dev/stint/internal/store"
	"github.com/stint-dev/stint/internal/store/postgres"
	"github.com/stint-dev/stint/internal/store/sqlite"
)

// database is the opened store with its wake-ups.
type database struct {
	store.Store
	bus          notify.Bus
	crossProcess bool // other servers may share it
}

// openDatabase opens PostgreSQL when the configuration names it, else SQLite in
// the data folder.
func openDatabase(ctx context.Context, c *config.Config, d *dataFolder, log *slog.Logger) (*database, error) {
	if c.Database == "" {
		s, err := sqlite.Open(ctx, d.join("stint.db"), sqlite.Options{Logger: log})
		if err != nil {
			return nil, fmt.Errorf("open database: %w", err)
		}
		return &database{Store: s, bus: inproc.New()}, nil
	}
	s, err := postgres.Open(ctx, c.Database, postgres.Options{Logger: log})
	if err != nil {
		return nil, fmt.Errorf("open database %s: %w", redact(c.Database), err)
	}
	bus, err := pgnotify.New(ctx, c.Database, log)
	if err != nil {
		_ = s.Close()
		return nil, fmt.Errorf("listen for wake-ups on %s: %w", redact(c.Database), err)
	}
	return &database{Store: s, bus: bus, crossProcess: true}, nil
}

// redact takes the password out of a database's address.
func redact(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return "(address not shown)"
	}
	return u.Redacted()
}

// openBlobs opens the bucket that the configuration names, else a folder, and
// says what releases it.
func openBlobs(ctx context.Context, c *config.Config, d *dataFolder, log *slog.Logger) (blob.Store, func() error, error) {
	if strings.HasPrefix(c.Storage, s3.Scheme) {
		return openBucket(ctx, c.Storage, log)
	}
	dir := c.Storage
	if dir == "" {
		dir = d.join("blobs")
	}
	s, err := localfs.Open(dir)
	if err != nil {
		return nil, nil, fmt.Errorf("open storage: %w", err)
	}
	return s, s.Close, nil
}

// uploadAge is how old an upload must be that nobody will complete any more.
const uploadAge = 24 * time.Hour

// openBucket opens a bucket and drops what crashed servers have left there. A
// bucket that does not let us look for it works all the same.
func openBucket(ctx context.Context, url string, log *slog.Logger) (blob.Store, func() error, error) {
	s, err := s3.Open(ctx, s3.Config{URL: url})
	if err != nil {
		return nil, nil, fmt.Errorf("open storage: %w", err)
	}
	log.Info("files rest in a bucket", "bucket", s.Bucket(), "endpoint", s.Endpoint())
	left, err := s.Abandoned(ctx, time.Now().Add(-uploadAge))
	if err != nil {
		log.Warn("abandoned uploads may take room in the bucket", "error", err)
	} else if left > 0 {
		log.Info("abandoned uploads were dropped", "uploads", left)
	}
	return s, s.Close, nil
}

// keys are the installation's secrets, derived from one.
type keys struct {
	sealer  *secret.Sealer
	signing []byte
}

func openKeys(d *dataFolder) (*keys, error) {
	root, err := secret.LoadOrCreateKey(d.join("key"))
	if err != nil {
		return nil, fmt.Errorf("open the installation's key: %w", err)
	}
	sealing, err := hkdf.Key(sha256.New, root, nil, "stint sealing v1", 32)
	if err != nil {
		return nil, fmt.Errorf("derive sealing key: %w", err)
	}
	signing, err := hkdf.Key(sha256.New, root, nil, "stint signing v1", 32)
	if err != nil {
		return nil, fmt.Errorf("derive signing key: %w", err)
	}
	sealer, err := secret.NewSealer(sealing)
	if err != nil {
		return nil, fmt.Errorf("open sealer: %w", err)
	}
	return &keys{sealer: sealer, signing: signing}, nil
}

func newIDs() *stint.IDs { return stint.NewIDs(time.Now, rand.Reader) }
