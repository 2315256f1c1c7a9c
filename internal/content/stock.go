package content

import (
	"context"
	"fmt"
	"iter"
	"sync"

	"github.com/stint-dev/stint/internal/content/chunkindex"
)

// Index finds chunks of an organisation in its packs. It is derived data: what
// it does not know, or fails to find, is stored again. *chunkindex.Index is one,
// and says what the methods do.
type Index interface {
	Find(org string, h chunkindex.Hash) (chunkindex.Place, bool, error)
	Add(org, pack string, chunks []chunkindex.Chunk) error
	Has(org, pack string) bool
	Packs(org string) iter.Seq[string]
	Drop(org string, packs []string) error
}

// Garbage tells what a collection is about to delete.
type Garbage interface {
	// Condemned gives the keys of the organisation's objects that the next
	// deletion may take, and the epoch in which that is so. A digest may be
	// named in the organisation's books only while the epoch of its Ref counts.
	Condemned(ctx context.Context, org string) (epoch int64, keys []string, err error)
}

// condemned are the objects that may be deleted in an epoch.
type condemned struct {
	org   string
	epoch int64
	keys  map[string]bool
}

func (l *Library) condemned(ctx context.Context, org string) (condemned, error) {
	c := condemned{org: org}
	if l.garbage == nil {
		return c, nil
	}
	epoch, keys, err := l.garbage.Condemned(ctx, org)
	if err != nil {
		return c, fmt.Errorf("asking what is being collected: %w", err)
	}
	c.epoch, c.keys = epoch, make(map[string]bool, len(keys))
	for _, k := range keys {
		c.keys[k] = true
	}
	return c, nil
}

func (c *condemned) pack(id string) bool { return len(c.keys) > 0 && c.keys[packKey(c.org, id)] }

// stock finds the chunks that a commit need not store. Condemned packs do not
// count. It is safe for concurrent use.
type stock struct {
	org       string
	index     Index // nil = none
	condemned condemned
	known     *known

	mu       sync.Mutex      // guards what follows
	borrowed map[string]bool // packs that only the index knows to exist
}

// find gives the place of a chunk of so many bytes, which may be one of f.
func (s *stock) find(f *former, h hash, raw uint32) (place, bool, error) {
	if at, ok := f.find(h); ok && !s.condemned.pack(at.pack) {
		return at, true, nil
	}
	at, ok, err := s.known.find(h)
	if ok || err != nil || s.index == nil {
		return at, ok, err
	}
	there, ok, err := s.index.Find(s.org, h)
	if !ok || err != nil || there.Raw != raw || s.condemned.pack(there.Pack) {
		return place{}, false, nil // an index that fails only costs space
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.borrowed[there.Pack] = true
	return place{pack: there.Pack, offset: there.Offset, stored: there.Stored, crc: there.CRC}, true, nil
}

// isBorrowed tells whether nothing but the index says that a pack exists.
func (s *stock) isBorrowed(pack string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.borrowed[pack]
}
