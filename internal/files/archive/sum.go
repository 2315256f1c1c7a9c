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

// downloadSum is the hash of a download of some length.
type downloadSum struct {
	sum  format.Hash
	size int64
}

// DownloadSum returns the SHA-256 of a download of that format and size. It is
// known after the first computation. If it is unknown and compute is set, the
// download is read once and the hash is stored, unless too many downloads are
// being hashed.
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
		return sum, known, err // computed meanwhile
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

// knownSum returns a known hash. The hash of a download of another size is
// outdated: the tree was deleted and stored again in other segments.
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

// storedSum reads the object of a hash: the hash, a space, and the length as text.
// A damaged object is ignored.
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

// keepSum stores a hash and replaces an earlier one.
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
