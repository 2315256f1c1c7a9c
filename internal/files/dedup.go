package files

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"sync"

	"github.com/stint-dev/stint/internal/files/index"
)

// Index finds chunks of an organisation in its packs. It is derived data: what
// it does not know, or fails to find, is stored again. *index.Index is one,
// and says what the methods do.
type Index interface {
	Find(org string, h index.Hash) (index.Place, bool, error)
	Add(org, pack string, chunks []index.Chunk) error
	Has(org, pack string) bool
	Packs(org string) iter.Seq[string]
	Drop(org string, packs []string) error
}

// Garbage tells what a collection is about to delete.
type CollectionMarks interface {
	// Condemned gives the keys of the organisation's objects that the next
	// deletion may take, and the epoch in which that is so. A digest may be
	// named in the organisation's books only while the epoch of its Ref counts.
	Marked(ctx context.Context, org string) (epoch int64, keys []string, err error)
}

// condemned are the objects that may be deleted in an epoch.
type marked struct {
	org   string
	epoch int64
	keys  map[string]bool
	// suspect are the keys of packs that are condemned themselves, or something
	// that stands for them.
	doubtful map[string]bool
}

func (l *Library) marked(ctx context.Context, org string) (marked, error) {
	c := marked{org: org}
	if l.garbage == nil {
		return c, nil
	}
	epoch, keys, err := l.garbage.Marked(ctx, org)
	if err != nil {
		return c, fmt.Errorf("asking what is being collected: %w", err)
	}
	c.epoch, c.keys, c.doubtful = epoch, make(map[string]bool, len(keys)), make(map[string]bool, len(keys))
	for _, k := range keys {
		c.keys[k], c.doubtful[firstKey(k)] = true, true
	}
	return c, nil
}

// pack tells whether something of a pack may be deleted.
func (c *marked) pack(id string) bool { return len(c.keys) > 0 && c.doubtful[packKey(c.org, id)] }

// stock finds the chunks that a commit need not store. What is condemned does
// not count. It is safe for concurrent use.
type dedup struct {
	ctx       context.Context // of the commit
	org       string
	index     Index // nil = none
	condemned marked
	places    *relocation
	known     *chunkSet

	mu       sync.Mutex          // guards what follows
	borrowed map[string][]string // packs that only the index knows to exist, and by which names
}

// find gives the place of a chunk of so many bytes, which may be one of f.
func (s *dedup) find(f *parentChunks, h hash, raw uint32) (place, bool, error) {
	if at, ok := f.find(h); ok {
		if holds, err := s.places.hold(s.ctx, &at); holds || err != nil {
			return at, holds, err
		}
	}
	at, ok, err := s.known.find(h)
	if ok || err != nil || s.index == nil {
		return at, ok, err
	}
	there, ok, err := s.index.Find(s.org, h)
	if !ok || err != nil || there.Raw != raw || s.condemned.keys[packKey(s.org, there.Pack)] {
		return place{}, false, nil // an index that fails only costs space
	}
	pack := firstKey(there.Pack)
	s.mu.Lock()
	defer s.mu.Unlock()
	if names := s.borrowed[pack]; !slices.Contains(names, there.Pack) {
		s.borrowed[pack] = append(names, there.Pack)
	}
	return place{pack: pack, offset: there.Offset, stored: there.Stored, crc: there.CRC}, true, nil
}

// borrowedAs gives the names under which nothing but the index says that a pack
// exists.
func (s *dedup) borrowedAs(pack string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.borrowed[pack]
}
