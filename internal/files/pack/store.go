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

// Store reads packs wherever their segments are stored: a deleted pack is
// assembled from the compacted packs that replace it, with each segment at its old
// offset. So manifests do not change when packs do.
type Store struct {
	blob.Store
	Options

	compacted *lru.Cache[string, *CompactedPack] // by the key of the deleted pack
}

// maxCompacted is the number of cached compacted packs, of at most a megabyte each.
const maxCompacted = 64

// Options adjusts a Store.
type Options struct {
	TempDir string
	IDs     *stint.IDs
	// Sealed is where confidential packs are written; nil for the store itself.
	// Reads detect damage of objects that were written there.
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
	all     []extent // by offset
}

// extent is a segment in a compacted pack.
type extent struct {
	offset uint32 // in the deleted pack
	stored uint32
	at     uint32 // offset in the object
	object uint32 // index in objects
}

// find returns the index of the first extent that ends behind offset.
func (t *CompactedPack) find(offset int64) int {
	return sort.Search(len(t.all), func(i int) bool { return int64(t.all[i].offset)+int64(t.all[i].stored) > offset })
}

// Holds reports whether a segment is available.
func (t *CompactedPack) Holds(offset uint32) bool {
	i := t.find(int64(offset))
	return i < len(t.all) && t.all[i].offset == offset
}

// Get implements blob.Store.
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
		var unread error
		if t, unread = s.load(ctx, key); unread != nil {
			return nil, unread
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

func (t *CompactedPack) covers(offset int64) bool {
	i := t.find(offset)
	return i < len(t.all) && int64(t.all[i].offset) <= offset
}

// load reads the table of a deleted pack; nil if nothing replaces it.
func (s *Store) load(ctx context.Context, key string) (*CompactedPack, error) {
	t, err := s.Compacted(ctx, key, nil)
	if t != nil {
		s.compacted.Put(key, t)
	}
	return t, err
}

// Compacted returns the objects that replace a pack, without the refused ones; nil
// if there are none. A damaged object is ignored if another one exists.
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
		case errors.Is(err, blob.ErrNotFound): // deleted since, because a newer one has all
			continue
		case IsDamage(err):
			bad = err
			continue
		case err != nil:
			return nil, err
		}
		at := uint32(0)
		for _, g := range segments {
			if !seen[g.Offset] {
				seen[g.Offset] = true
				t.all = append(t.all, extent{g.Offset, g.Length, at, uint32(len(t.objects))})
			}
			at += g.Length
		}
		t.objects = append(t.objects, g.Key)
	}
	if len(t.objects) == 0 {
		return nil, bad
	}
	slices.SortFunc(t.all, func(a, b extent) int { return cmp.Compare(a.offset, b.offset) })
	return t, nil
}

// compactedReader reads a deleted pack. A missing segment is read as zeros, which
// have no chunk's hash.
type compactedReader struct {
	ctx     context.Context // of the Get
	store   *Store
	table   *CompactedPack
	at, end int64
	stale   int // how often the table was read again

	r      io.ReadCloser // is at position next of object
	object uint32
	next   uint32
}

// maxStale is how often objects may be replaced during one reading.
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

// seek opens an object at a position unless the reader is there already.
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

// WriteTo returns the store to which a pack of that name is written.
func (s *Store) WriteTo(id string) blob.Store {
	if s.Sealed != nil && strings.HasPrefix(id, SealedPrefix) {
		return s.Sealed
	}
	return s
}
