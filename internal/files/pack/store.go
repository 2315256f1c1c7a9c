package pack

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sort"
	"strings"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/blob"
	"github.com/stint-dev/stint/internal/files/format"
	"github.com/stint-dev/stint/internal/lru"
)

// Store reads and writes packs. If a pack was deleted, Get reads its segments from
// the compacted packs that replace it and returns each segment at its old offset.
// Manifests therefore remain valid when packs are compacted.
type Store struct {
	blob.Store
	Options

	compacted *lru.Cache[string, *CompactedPack] // by the key of the deleted pack
}

// maxCompacted is the maximum number of cached compacted packs. Each uses at most a
// megabyte of memory.
const maxCompacted = 64

// Options adjusts a Store.
type Options struct {
	TempDir string
	IDs     *stint.IDs
	// Sealed is the store to which confidential packs are written; nil means the
	// store itself. Reading an object that was written to it detects damage.
	Sealed blob.Store
}

// NewStore returns a store of the packs in b.
func NewStore(b blob.Store, o Options) *Store {
	return &Store{Store: b, Options: o, compacted: lru.New[string, *CompactedPack](maxCompacted)}
}

// CompactedPack maps the segments of a deleted pack to the objects that hold them.
type CompactedPack struct {
	key     string // of the deleted pack
	objects []string
	all     []extent // sorted by offset
}

// extent is a segment in a compacted pack.
type extent struct {
	offset uint32 // in the deleted pack
	stored uint32 // length
	at     uint32 // offset in the object
	object uint32 // index in objects
}

// find returns the index of the first extent that ends after offset.
func (t *CompactedPack) find(offset int64) int {
	return sort.Search(len(t.all), func(i int) bool { return int64(t.all[i].offset)+int64(t.all[i].stored) > offset })
}

// Holds reports whether the segment that begins at offset is available.
func (t *CompactedPack) Holds(offset uint32) bool {
	i := t.find(int64(offset))
	return i < len(t.all) && t.all[i].offset == offset
}

// Get implements blob.Store. It also reads deleted packs that were compacted.
func (s *Store) Get(ctx context.Context, key string, offset, n int64) (io.ReadCloser, error) {
	if _, generation, ok := SplitGeneration(key); !ok || generation > 0 || !strings.Contains(key, "/packs/") {
		return s.Store.Get(ctx, key, offset, n)
	}
	t, known := s.compacted.Get(key)
	if !known || !t.covers(offset) {
		r, err := s.Store.Get(ctx, key, offset, n)
		if !errors.Is(err, blob.ErrNotFound) {
			return r, err
		}
		var loadErr error
		if t, loadErr = s.load(ctx, key); loadErr != nil {
			return nil, loadErr
		} else if t == nil || !t.covers(offset) {
			return nil, err
		}
	}
	end := int64(format.MaxPackObject)
	if n >= 0 {
		end = min(end, offset+n)
	}
	return &compactedReader{ctx: ctx, store: s, table: t, at: offset, end: end}, nil
}

// covers reports whether a segment contains the byte at offset.
func (t *CompactedPack) covers(offset int64) bool {
	i := t.find(offset)
	return i < len(t.all) && int64(t.all[i].offset) <= offset
}

// load reads and caches the extents of a deleted pack. It returns nil if no compacted
// pack replaces it.
func (s *Store) load(ctx context.Context, key string) (*CompactedPack, error) {
	t, err := s.Compacted(ctx, key, nil)
	if t != nil {
		s.compacted.Put(key, t)
	}
	return t, err
}

// Compacted returns the compacted packs that replace a pack, except those with keys
// in refused, or nil if there are none. It ignores damaged objects unless all
// are damaged.
func (s *Store) Compacted(ctx context.Context, key string, refused map[string]bool) (*CompactedPack, error) {
	later, err := LaterGenerations(ctx, s.Store, key)
	if err != nil {
		return nil, err
	}
	t := &CompactedPack{key: key}
	seen := map[uint32]bool{}
	var bad error
	for _, g := range later {
		if refused[g.Key] {
			continue
		}
		segments, err := ReadSegments(ctx, s.Store, g.Key)
		switch {
		case errors.Is(err, blob.ErrNotFound): // just deleted: a newer generation has all its segments
			continue
		case IsDamage(err):
			bad = err
			continue
		case err != nil:
			return nil, err
		}
		at := uint32(0)
		for _, segment := range segments {
			if !seen[segment.Offset] {
				seen[segment.Offset] = true
				t.all = append(t.all, extent{segment.Offset, segment.Length, at, uint32(len(t.objects))})
			}
			at += segment.Length
		}
		t.objects = append(t.objects, g.Key)
	}
	if len(t.objects) == 0 {
		return nil, bad
	}
	slices.SortFunc(t.all, func(a, b extent) int { return cmp.Compare(a.offset, b.offset) })
	return t, nil
}

// compactedReader reads a deleted pack. It returns zeros for a missing segment. The
// caller detects this, because the hash of the chunk or page does not match.
type compactedReader struct {
	ctx     context.Context // of the call of Get
	store   *Store
	table   *CompactedPack
	at, end int64
	stale   int // number of times that the table was read again

	r      io.ReadCloser // reads object from the offset next on
	object uint32
	next   uint32
}

// maxStale is the maximum number of times that a compactedReader reads the table again
// because an object was replaced.
const maxStale = 3

func (p *compactedReader) Read(b []byte) (int, error) {
	if p.at >= p.end {
		return 0, io.EOF
	}
	b = b[:min(int64(len(b)), p.end-p.at)]
	i := p.table.find(p.at)
	if i == len(p.table.all) {
		return 0, io.EOF
	}
	e := p.table.all[i]
	if gap := int64(e.offset) - p.at; gap > 0 {
		n := int(min(gap, int64(len(b))))
		clear(b[:n])
		p.at += int64(n)
		return n, nil
	}
	skip := uint32(p.at) - e.offset
	if err := p.seek(e.object, e.at+skip); errors.Is(err, blob.ErrNotFound) && p.stale < maxStale {
		return 0, p.refresh()
	} else if err != nil {
		return 0, err
	}
	n, err := p.r.Read(b[:min(len(b), int(e.stored-skip))])
	p.at += int64(n)
	p.next += uint32(n)
	if IsEOF(err) && n > 0 {
		err = nil
	} else if IsEOF(err) {
		err = fmt.Errorf("reading a compacted pack: %w", format.ErrDamaged)
	}
	return n, err
}

// seek opens an object at an offset unless p.r is already there.
func (p *compactedReader) seek(object, at uint32) error {
	if p.r != nil && p.object == object && p.next == at {
		return nil
	}
	if err := p.Close(); err != nil {
		return err
	}
	r, err := p.store.Store.Get(p.ctx, p.table.objects[object], int64(at), -1)
	if err != nil {
		return err
	}
	p.r, p.object, p.next = r, object, at
	return nil
}

// refresh reads the table again, because an object was replaced.
func (p *compactedReader) refresh() error {
	p.stale++
	t, err := p.store.load(p.ctx, p.table.key)
	if err == nil && t == nil {
		err = fmt.Errorf("reading a compacted pack: %w", blob.ErrNotFound)
	}
	if err != nil {
		return err
	}
	p.table = t
	return nil
}

func (p *compactedReader) Close() error {
	if p.r == nil {
		return nil
	}
	err := p.r.Close()
	p.r = nil
	return err
}

// WriteTo returns the store to which the pack with the given ID is written.
func (s *Store) WriteTo(id string) blob.Store {
	if s.Sealed != nil && strings.HasPrefix(id, SealedPrefix) {
		return s.Sealed
	}
	return s
}
