package files

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"iter"
	"sort"

	"github.com/stint-dev/stint/internal/blob"
)

// manifest reads a stored tree. It is safe for concurrent use.
type manifest struct {
	store  *manifestStore
	org    string
	digest string
	key    string // of the object
	root   *root
}

// manifest opens the tree with the digest. A missing one is blob.ErrNotFound.
func (s *manifestStore) open(ctx context.Context, org, digest string) (*manifest, error) {
	if err := checkOrg(org); err != nil {
		return nil, err
	}
	if !isDigest(digest) {
		return nil, fmt.Errorf("the digest of a tree is 64 hexadecimal digits: %w", blob.ErrNotFound)
	}
	m := &manifest{store: s, org: org, digest: digest}
	if err := m.open(ctx); err != nil {
		return nil, fmt.Errorf("opening the manifest %s: %w", digest, err)
	}
	return m, nil
}

// open reads the root: the first, or the newest that stands for it.
func (m *manifest) open(ctx context.Context) error {
	first := manifestKey(m.org, m.digest)
	err := m.openAt(ctx, first)
	if !errors.Is(err, blob.ErrNotFound) {
		return err
	}
	later, unclear := laterGenerations(ctx, m.store.packs.Store, first)
	if unclear != nil {
		return unclear
	}
	if len(later) == 0 {
		return err
	}
	return m.openAt(ctx, later[0].key)
}

func (m *manifest) openAt(ctx context.Context, key string) error {
	r, err := m.store.packs.Get(ctx, key, 0, -1)
	if err != nil {
		return err
	}
	object, err := io.ReadAll(io.LimitReader(r, maxRoot+1))
	if err := errors.Join(err, r.Close()); err != nil {
		return err
	}
	if len(object) > maxRoot {
		return errDamaged
	}
	m.key = key
	if m.root, err = decodeRoot(object, m.store.zstdIn); err != nil {
		return err
	}
	if m.root.digest() != m.digest {
		return fmt.Errorf("%w: it is of another tree", errDamaged)
	}
	return nil
}

// pageReader reads pages. Those that lie one after the other in a pack come
// in larger and larger pieces, as a request each would be slow in a store far
// away. It serves one goroutine.
type pageReader struct {
	m     *manifest
	buf   []byte // a piece of a pack
	pack  uint32
	at    int64 // where it begins there
	ahead int64 // how much the next piece has at least, as far as pages follow
}

// maxAhead bounds the pieces.
const maxAhead = 1 << 20

// page gives the entries of page i.
func (r *pageReader) page(ctx context.Context, i int) ([]*entry, error) {
	p := &r.m.root.pages[i]
	b, err := r.stored(ctx, i)
	if err == nil {
		b, err = r.expand(p, b)
	}
	var entries []*entry
	if err == nil {
		entries, err = decodeEntries(b)
	}
	if err == nil && (int64(len(entries)) != p.entries || logicalHash(entries) != p.logical) {
		err = errDamaged
	}
	if err != nil {
		return nil, fmt.Errorf("reading the manifest %s: %w", r.m.digest, err)
	}
	return entries, nil
}

func (r *pageReader) expand(p *page, b []byte) ([]byte, error) {
	if hash(sha256.Sum256(b)) != p.sum {
		return nil, errDamaged
	}
	b, err := r.m.store.zstdIn.DecodeAll(b, nil)
	if err != nil {
		return nil, damaged(err)
	}
	return b, nil
}

// stored gives the bytes of page i as they rest.
func (r *pageReader) stored(ctx context.Context, i int) ([]byte, error) {
	pages := r.m.root.pages
	p := &pages[i]
	offset, n := int64(p.offset), int64(p.stored)
	if r.pack == p.pack && offset >= r.at && offset+n <= r.at+int64(len(r.buf)) {
		return r.buf[offset-r.at:][:n], nil
	}
	end := offset + n
	for _, next := range pages[i+1:] {
		if next.pack != p.pack || int64(next.offset) != end || end-offset >= r.ahead {
			break
		}
		end += int64(next.stored)
	}
	r.ahead = min(max(2*(end-offset), 64<<10), maxAhead)
	b, err := fetch(ctx, r.m.store.packs, packKey(r.m.org, r.m.root.packs[p.pack]), offset, end-offset)
	if err != nil {
		return nil, err
	}
	r.buf, r.pack, r.at = b, p.pack, offset
	return b[:n], nil
}

// from walks the entries that follow path, in path order; all for "".
func (m *manifest) from(ctx context.Context, path string) iter.Seq2[*entry, error] {
	return func(yield func(*entry, error) bool) {
		r := pageReader{m: m}
		for i := m.pageOf(path); i < len(m.root.pages); i++ {
			entries, err := r.page(ctx, i)
			if err != nil {
				yield(nil, err)
				return
			}
			for _, e := range entries {
				if comparePaths(e.path, path) > 0 && !yield(e, nil) {
					return
				}
			}
		}
	}
}

// entries walks the whole tree.
func (m *manifest) entries(ctx context.Context) iter.Seq2[*entry, error] { return m.from(ctx, "") }

// pageOf gives the page that holds path, if any does.
func (m *manifest) pageOf(path string) int {
	pages := m.root.pages
	i := sort.Search(len(pages), func(i int) bool { return comparePaths(pages[i].first, path) > 0 })
	return max(0, i-1)
}
