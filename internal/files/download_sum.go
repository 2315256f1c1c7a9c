package files

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/stint-dev/stint/internal/blob"
)

// What is made from a tree to serve it sooner rests beside it: the hashes of
// its downloads, and its archive whole. Any of it may be deleted at any time,
// and should be once the tree is.
const (
	digestsFolder  = "/digests/"
	archivesFolder = "/archives/"
)

func digestKey(org, digest string, f Format) string {
	return org + digestsFolder + digest + "." + string(f)
}

func archiveKey(org, digest string) string {
	return org + archivesFolder + digest + "." + string(TarGzip)
}

// DerivedPrefixes gives the prefixes of keys under which objects lie that are
// made from trees and can be made again.
func DerivedPrefixes(org string) []string {
	return []string{org + archivesFolder, org + digestsFolder}
}

// ParseDerivedKey tells which tree an object under such a prefix was made from. A
// key that is none of ours gives false.
func ParseDerivedKey(key string) (org, digest string, ok bool) {
	for _, dir := range []string{archivesFolder, digestsFolder} {
		org, name, found := strings.Cut(key, dir)
		if !found {
			continue
		}
		digest, _, found = strings.Cut(name, ".")
		return org, digest, found && checkOrg(org) == nil && isDigest(digest)
	}
	return "", "", false
}

// sumOf is the hash of a download, which has some length.
type downloadSum struct {
	sum  hash
	size int64
}

// DownloadSum gives the SHA-256 of a download of that format and size. One
// that nobody asked for before is not known, unless compute is set: then the
// whole download is read once, and its hash kept for everybody. Where too much
// is being hashed for that to begin soon it stays unknown.
func (d *downloads) DownloadSum(ctx context.Context, org, digest string, f Format, size int64, compute bool) (sum [sha256.Size]byte, known bool, err error) {
	if err := checkOrg(org); err != nil || !isDigest(digest) {
		return sum, false, errors.Join(err, blob.ErrNotFound)
	}
	key := digestKey(org, digest, f)
	if sum, known, err = d.knownSum(ctx, key, size); known || err != nil || !compute {
		return sum, known, err
	}
	done, ok := d.hashing.take(ctx, org)
	if !ok {
		return sum, false, context.Cause(ctx) // nil where it was patience that ended
	}
	defer done()
	if sum, known, err = d.knownSum(ctx, key, size); known || err != nil {
		return sum, known, err // somebody has computed it meanwhile
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
	found := downloadSum{hash(h.Sum(nil)), file.Size()}
	return found.sum, true, d.keepSum(ctx, key, found)
}

// knownSum looks a hash up. One of a download of another size is of another
// life of the tree, stored in other segments.
func (d *downloads) knownSum(ctx context.Context, key string, size int64) (hash, bool, error) {
	if s, ok := d.sums.get(key); ok && s.size == size {
		return s.sum, true, nil
	}
	s, ok, err := d.storedSum(ctx, key)
	if !ok || err != nil || s.size != size {
		return hash{}, false, err
	}
	d.sums.put(key, s)
	return s.sum, true, nil
}

// storedSum reads the object that holds a hash, as text: the hash, a space and
// the length. A damaged one is as none.
func (d *downloads) storedSum(ctx context.Context, key string) (downloadSum, bool, error) {
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
	digits, length, _ := strings.Cut(strings.TrimSuffix(string(b), "\n"), " ")
	raw, err := hex.DecodeString(digits)
	size, err2 := strconv.ParseInt(length, 10, 64)
	if err != nil || err2 != nil || len(raw) != sha256.Size {
		return downloadSum{}, false, nil
	}
	return downloadSum{hash(raw), size}, true, nil
}

// keepSum stores a hash in place of any other.
func (d *downloads) keepSum(ctx context.Context, key string, s downloadSum) error {
	d.sums.put(key, s)
	text := fmt.Sprintf("%x %d\n", s.sum, s.size)
	err := d.packs.Put(ctx, key, strings.NewReader(text), int64(len(text)))
	if errors.Is(err, blob.ErrExists) {
		if err = d.packs.Delete(ctx, key); err == nil {
			err = d.packs.Put(ctx, key, strings.NewReader(text), int64(len(text)))
		}
	}
	if err != nil && !errors.Is(err, blob.ErrExists) {
		return fmt.Errorf("keeping the hash of a download: %w", err)
	}
	return nil
}
