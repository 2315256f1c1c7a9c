package manifest

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"iter"
	"sort"

	"github.com/stint-dev/stint/internal/blob"
	"github.com/stint-dev/stint/internal/files/format"
	"github.com/stint-dev/stint/internal/files/pack"
)

// Manifest reads the entries of a stored tree. It is safe for concurrent use.
type Manifest struct {
	Store  *Store
	Org    string
	Digest string
	Key    string // key of the root
	Root   *format.Root
}

// Open opens the tree with the digest. If it does not exist, the error wraps
// blob.ErrNotFound.
func (s *Store) Open(ctx context.Context, org, digest string) (*Manifest, error) {
	if err := pack.CheckOrg(org); err != nil {
		return nil, err
	}
	if !pack.IsDigest(digest) {
		return nil, fmt.Errorf("the digest of a tree is 64 hexadecimal digits: %w", blob.ErrNotFound)
	}
	m := &Manifest{Store: s, Org: org, Digest: digest}
	if err := m.ReadRoot(ctx); err != nil {
		return nil, fmt.Errorf("opening the manifest %s: %w", digest, err)
	}
	return m, nil
}

// ReadRoot reads the original root of the tree if it exists, otherwise the newest
// replacement.
func (m *Manifest) ReadRoot(ctx context.Context) error {
	first := pack.ManifestKey(m.Org, m.Digest)
	err := m.ReadRootAt(ctx, first)
	if !errors.Is(err, blob.ErrNotFound) {
		return err
	}
	later, unclear := pack.LaterGenerations(ctx, m.Store.Packs.Store, first)
	if unclear != nil {
		return unclear
	}
	if len(later) == 0 {
		return err
	}
	return m.ReadRootAt(ctx, later[0].Key)
}

// ReadRootAt reads the root with the given key. If the root does not belong to
// m.Digest, the error wraps format.ErrDamaged.
func (m *Manifest) ReadRootAt(ctx context.Context, key string) error {
	r, err := m.Store.Packs.Get(ctx, key, 0, -1)
	if err != nil {
		return err
	}
	object, err := io.ReadAll(io.LimitReader(r, format.MaxRoot+1))
	if err := errors.Join(err, r.Close()); err != nil {
		return err
	}
	if len(object) > format.MaxRoot {
		return format.ErrDamaged
	}
	m.Key = key
	if m.Root, err = format.DecodeRoot(object, m.Store.zstdIn); err != nil {
		return err
	}
	if m.Root.Digest() != m.Digest {
		return fmt.Errorf("%w: it is of another tree", format.ErrDamaged)
	}
	return nil
}

// PageReader reads pages. It reads adjacent pages of a pack in pieces of growing
// size, because a request for each page would be slow with a remote store. It is not
// safe for concurrent use.
type PageReader struct {
	M     *Manifest
	buf   []byte // a piece of a pack
	pack  uint32 // index of the pack in the root
	at    int64  // offset of buf in the pack
	ahead int64  // minimum size of the next piece, if enough adjacent pages follow
}

// maxAhead bounds PageReader.ahead, in bytes.
const maxAhead = 1 << 20

// Page returns the entries of page i.
func (r *PageReader) Page(ctx context.Context, i int) ([]*format.Entry, error) {
	p := &r.M.Root.Pages[i]
	b, err := r.stored(ctx, i)
	if err == nil {
		b, err = r.expand(p, b)
	}
	var entries []*format.Entry
	if err == nil {
		entries, err = format.DecodeEntries(b)
	}
	if err == nil && (int64(len(entries)) != p.Entries || format.LogicalHash(entries) != p.Logical) {
		err = format.ErrDamaged
	}
	if err != nil {
		return nil, fmt.Errorf("reading the manifest %s: %w", r.M.Digest, err)
	}
	return entries, nil
}

func (r *PageReader) expand(p *format.Page, b []byte) ([]byte, error) {
	if format.Hash(sha256.Sum256(b)) != p.Sum {
		return nil, format.ErrDamaged
	}
	b, err := r.M.Store.zstdIn.DecodeAll(b, nil)
	if err != nil {
		return nil, format.Damaged(err)
	}
	return b, nil
}

// stored returns the stored bytes of page i.
func (r *PageReader) stored(ctx context.Context, i int) ([]byte, error) {
	pages := r.M.Root.Pages
	p := &pages[i]
	offset, n := int64(p.Offset), int64(p.Length)
	if r.pack == p.Pack && offset >= r.at && offset+n <= r.at+int64(len(r.buf)) {
		return r.buf[offset-r.at:][:n], nil
	}
	end := offset + n
	for _, next := range pages[i+1:] {
		if next.Pack != p.Pack || int64(next.Offset) != end || end-offset >= r.ahead {
			break
		}
		end += int64(next.Length)
	}
	r.ahead = min(max(2*(end-offset), 64<<10), maxAhead)
	b, err := pack.ReadRange(ctx, r.M.Store.Packs, pack.Key(r.M.Org, r.M.Root.Packs[p.Pack]), offset, end-offset)
	if err != nil {
		return nil, err
	}
	r.buf, r.pack, r.at = b, p.Pack, offset
	return b[:n], nil
}

// From returns the entries after path in path order. If path is "", it returns all
// entries. An error ends the sequence.
func (m *Manifest) From(ctx context.Context, path string) iter.Seq2[*format.Entry, error] {
	return func(yield func(*format.Entry, error) bool) {
		r := PageReader{M: m}
		for i := m.PageOf(path); i < len(m.Root.Pages); i++ {
			entries, err := r.Page(ctx, i)
			if err != nil {
				yield(nil, err)
				return
			}
			for _, e := range entries {
				if format.ComparePaths(e.Path, path) > 0 && !yield(e, nil) {
					return
				}
			}
		}
	}
}

// Entries returns all entries of the tree in path order. An error ends the sequence.
func (m *Manifest) Entries(ctx context.Context) iter.Seq2[*format.Entry, error] {
	return m.From(ctx, "")
}

// PageOf returns the index of the only page that can hold path, or 0 if the tree has
// no pages.
func (m *Manifest) PageOf(path string) int {
	pages := m.Root.Pages
	i := sort.Search(len(pages), func(i int) bool { return format.ComparePaths(pages[i].First, path) > 0 })
	return max(0, i-1)
}
