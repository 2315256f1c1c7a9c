package archive

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/stint-dev/stint/internal/blob"
	"github.com/stint-dev/stint/internal/files/format"
	"github.com/stint-dev/stint/internal/files/pack"
)

// downloadSum is the SHA-256 of a download and its size in bytes.
type downloadSum struct {
	sum  format.Hash
	size int64
}

// DownloadSum returns the SHA-256 of the download of a tree in the format f, which
// has size bytes. If the hash is unknown and compute is set, DownloadSum reads the
// whole download and stores the hash, so that it is known from then on. If the
// hash is unknown and compute is not set, or too many downloads are being hashed,
// known is false.
func (d *Downloads) DownloadSum(ctx context.Context, org, digest string, f format.Format, size int64, compute bool) (sum [sha256.Size]byte, known bool, err error) {
	if err := pack.CheckOrg(org); err != nil || !pack.IsDigest(digest) {
		return sum, false, errors.Join(err, blob.ErrNotFound)
	}
	key := pack.DigestKey(org, digest, f)
	if sum, known, err = d.knownSum(ctx, key, size); known || err != nil || !compute {
		return sum, known, err
	}
	done, ok := d.hashing.Acquire(ctx, org)
	if !ok {
		return sum, false, context.Cause(ctx) // nil if the limiter timed out
	}
	defer done()
	if sum, known, err = d.knownSum(ctx, key, size); known || err != nil {
		return sum, known, err // another call has computed the hash meanwhile
	}
	file, err := d.Download(ctx, org, digest, f)
	if err != nil {
		return sum, false, err
	}
	h := sha256.New()
	_, err = io.CopyBuffer(h, struct{ io.Reader }{file}, make([]byte, 256<<10))
	if err := errors.Join(err, file.Close()); err != nil {
		return sum, false, fmt.Errorf("hashing a download: %w", err)
	}
	found := downloadSum{format.Hash(h.Sum(nil)), file.Size()}
	return found.sum, true, d.keepSum(ctx, key, found)
}

// knownSum returns a hash from the cache or the store. If a hash belongs to another
// size, it is outdated: the tree was deleted and stored again in other segments.
func (d *Downloads) knownSum(ctx context.Context, key string, size int64) (format.Hash, bool, error) {
	if s, ok := d.sums.Get(key); ok && s.size == size {
		return s.sum, true, nil
	}
	s, ok, err := d.storedSum(ctx, key)
	if !ok || err != nil || s.size != size {
		return format.Hash{}, false, err
	}
	d.sums.Put(key, s)
	return s.sum, true, nil
}

// storedSum reads the object that stores a hash. The object is a line of text: the
// hash in hexadecimal, a space, and the size in decimal. If the object is missing or
// damaged, storedSum returns false.
func (d *Downloads) storedSum(ctx context.Context, key string) (downloadSum, bool, error) {
	const most = 128
	r, err := d.packs.Get(ctx, key, 0, most)
	if errors.Is(err, blob.ErrNotFound) || errors.Is(err, blob.ErrDamaged) {
		return downloadSum{}, false, nil
	} else if err != nil {
		return downloadSum{}, false, fmt.Errorf("reading the hash of a download: %w", err)
	}
	b, err := io.ReadAll(io.LimitReader(r, most))
	if err := errors.Join(err, r.Close()); errors.Is(err, blob.ErrDamaged) {
		return downloadSum{}, false, nil
	} else if err != nil {
		return downloadSum{}, false, fmt.Errorf("reading the hash of a download: %w", err)
	}
	var sum []byte
	var size int64
	if _, err := fmt.Sscanf(string(b), "%x %d\n", &sum, &size); err != nil || len(sum) != sha256.Size {
		return downloadSum{}, false, nil
	}
	return downloadSum{format.Hash(sum), size}, true, nil
}

// keepSum puts a hash into the cache and the store and replaces an earlier one.
func (d *Downloads) keepSum(ctx context.Context, key string, s downloadSum) error {
	d.sums.Put(key, s)
	text := fmt.Sprintf("%x %d\n", s.sum, s.size)
	err := d.packs.Put(ctx, key, strings.NewReader(text), int64(len(text)))
	if errors.Is(err, blob.ErrExists) {
		if err = d.packs.Delete(ctx, key); err == nil {
			err = d.packs.Put(ctx, key, strings.NewReader(text), int64(len(text)))
		}
	}
	if err != nil && !errors.Is(err, blob.ErrExists) {
		return fmt.Errorf("storing the hash of a download: %w", err)
	}
	return nil
}
