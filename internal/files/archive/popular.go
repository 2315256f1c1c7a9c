package archive

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/stint-dev/stint/internal/blob"
	"github.com/stint-dev/stint/internal/files/format"
	"github.com/stint-dev/stint/internal/files/pack"
)

// If clients can access the object store directly, the store serves a complete
// archive more efficiently than this process. Therefore archives that are requested
// repeatedly are stored as objects.
const (
	minCachedArchive = 8 << 20 // bytes of the smallest archive that is stored
	cacheAfter       = 2       // full downloads after which an archive is stored
)

type treeKey struct{ org, digest string }

// CountDownload records a download of a tree's whole tar.gz, which has size bytes.
// After repeated downloads it queues the archive for StorePopularArchives. It does
// not access the store.
func (d *Downloads) CountDownload(org, digest string, size int64) {
	if _, direct := d.packs.Store.(blob.Presigner); !direct || size < minCachedArchive {
		return
	}
	key := treeKey{org, digest}
	if d.downloads.Update(key, func(n int) int { return n + 1 }) != cacheAfter {
		return
	}
	select {
	case d.queue <- key:
	default: // the queue is full: a later download tries again
		d.downloads.Put(key, cacheAfter-1)
	}
}

// StorePopularArchives stores the archives that CountDownload queued, one after the
// other. It returns nil when the queue is empty. It skips trees that are not found
// and stops at any other error.
func (d *Downloads) StorePopularArchives(ctx context.Context) error {
	for {
		select {
		case key := <-d.queue:
			if err := d.putArchive(ctx, key.org, key.digest); err != nil {
				d.downloads.Put(key, 0)
				if !errors.Is(err, blob.ErrNotFound) { // the tree may have been deleted
					return err
				}
			}
		default:
			return nil
		}
	}
}

// putArchive stores the tar.gz of a tree and its SHA-256.
func (d *Downloads) putArchive(ctx context.Context, org, digest string) error {
	a, err := d.Download(ctx, org, digest, format.TarGzip)
	if err != nil {
		return err
	}
	h := sha256.New()
	err = d.packs.Put(ctx, pack.ArchiveKey(org, digest), io.TeeReader(a, h), a.Size())
	err = errors.Join(err, a.Close())
	if errors.Is(err, blob.ErrExists) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("storing an archive: %w", err)
	}
	return d.keepSum(ctx, pack.DigestKey(org, digest, format.TarGzip), downloadSum{format.Hash(h.Sum(nil)), a.Size()})
}

// DirectLink returns a URL at which the object store serves the tree's tar.gz with
// the file name name. The URL is valid for the duration ttl. If the store does not
// support such links or does not have the archive, ok is false.
func (d *Downloads) DirectLink(ctx context.Context, org, digest, name string, ttl time.Duration) (address string, ok bool, err error) {
	p, direct := d.packs.Store.(blob.Presigner)
	if !direct || pack.CheckOrg(org) != nil || !pack.IsDigest(digest) {
		return "", false, nil
	}
	key := pack.ArchiveKey(org, digest)
	if _, err := d.packs.Stat(ctx, key); pack.IsDamage(err) {
		return "", false, nil
	} else if err != nil {
		return "", false, fmt.Errorf("finding an archive: %w", err)
	}
	address, err = p.PresignGet(ctx, key, name, "application/gzip", ttl)
	if errors.Is(err, blob.ErrNotFound) { // stored where links are not supported
		return "", false, nil
	}
	if err != nil {
		return "", false, fmt.Errorf("signing a link to an archive: %w", err)
	}
	return address, true, nil
}
