package index

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/stint-dev/stint/internal/blob"
	"github.com/stint-dev/stint/internal/files/format"
	"github.com/stint-dev/stint/internal/lru"
)

// ErrInUse is returned by Open if another Index has the folder open.
var ErrInUse = errors.New("chunk index: the folder is in use by another process")

var errClosed = errors.New("chunk index: the index is closed")

const (
	maxLoaded       = 32       // organisations in memory
	maxLoadedChunks = 16 << 20 // chunks in memory; a single organisation may have more
	maxDropped      = 1 << 16  // dropped packs that are remembered
	maxName         = blob.MaxElement
)

type droppedPack struct{ org, pack string }

// Index finds the chunks of each organisation. It is safe for concurrent use.
type Index struct {
	dir  string
	lock *os.File
	// dropped holds the packs that were dropped last, so that a concurrent Add
	// cannot add them again.
	dropped *lru.Cache[droppedPack, struct{}]

	mu     sync.Mutex // guards the fields below; no call waits for a shard while it holds mu
	closed bool
	shards map[string]*shard
	loaded []*shard // ordered by their last use, the latest last
}

// Open opens the index in dir, which it creates if necessary. If another Index has
// the folder open, in this or another process, the error is ErrInUse.
func Open(dir string) (*Index, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("making the folder of the chunk index: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the lock of the chunk index: %w", err)
	}
	if err := lockFile(lock); err != nil {
		lock.Close()
		return nil, err
	}
	return &Index{dir: dir, lock: lock, dropped: lru.New[droppedPack, struct{}](maxDropped), shards: map[string]*shard{}}, nil
}

// Close releases the folder. Other methods fail or find nothing afterwards.
func (x *Index) Close() error {
	x.mu.Lock()
	shards := x.shards
	was := x.closed
	x.closed, x.shards, x.loaded = true, nil, nil
	x.mu.Unlock()
	if was {
		return nil
	}
	for _, s := range shards {
		s.close()
	}
	return x.lock.Close()
}

// Find returns the chunk with the hash h and its place. If several packs hold the
// chunk, Find returns any of the places.
func (x *Index) Find(org string, h format.Hash) (c format.Chunk, found bool, err error) {
	err = x.with(org, func(s *shard) error {
		return s.find(&h, func(f format.Chunk) bool { c, found = f, true; return false })
	})
	return c, found, err
}

// Add adds a pack with all chunks among its segments. A pack that the index has or
// that was dropped is ignored: packs never change, and their names are unique.
func (x *Index) Add(org, pack string, segments []format.Segment) error {
	if pack == "" || len(pack) > maxName || strings.ContainsRune(pack, 0) {
		return fmt.Errorf("chunk index: %q is not a pack name", pack)
	}
	return x.with(org, func(s *shard) error {
		if _, dropped := x.dropped.Get(droppedPack{org, pack}); dropped || s.has(pack) {
			return nil
		}
		return s.add(pack, segments)
	})
}

// Has reports whether the pack was added and neither dropped nor lost.
func (x *Index) Has(org, pack string) bool {
	has := false
	err := x.with(org, func(s *shard) error {
		has = s.has(pack)
		return nil
	})
	return has && err == nil
}

// Packs returns the packs for which Has is true, ordered by name. The index may be
// used and changed during the iteration.
func (x *Index) Packs(org string) iter.Seq[string] {
	return func(yield func(string) bool) {
		var names []string
		err := x.with(org, func(s *shard) error {
			names = slices.Collect(maps.Keys(s.numbers))
			return nil
		})
		if err != nil {
			return
		}
		slices.Sort(names)
		slices.Values(names)(yield)
	}
}

// Drop removes packs. After it has returned, Find does not return places in these
// packs again, even after a power failure, so the packs may be deleted.
func (x *Index) Drop(org string, packs []string) error {
	return x.with(org, func(s *shard) error {
		for _, p := range packs {
			x.dropped.Put(droppedPack{org, p}, struct{}{})
		}
		return s.drop(packs)
	})
}

// with loads and locks the organisation's shard and calls do with it.
func (x *Index) with(org string, do func(*shard) error) error {
	if strings.Contains(org, "/") || org == "lock" || blob.CheckKey(org) != nil {
		return fmt.Errorf("chunk index: %q is not an organisation's name", org)
	}
	s, err := x.use(org)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.load(); err != nil {
		return err
	}
	return do(s)
}

// use returns the organisation's shard. It frees the least recently used shards that
// exceed the limits. A shard in use cannot be freed, so a later call of use tries again.
func (x *Index) use(org string) (*shard, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.closed {
		return nil, errClosed
	}
	s := x.shards[org]
	if s == nil {
		s = &shard{dir: filepath.Join(x.dir, org)}
		x.shards[org] = s
	}
	x.loaded = append(slices.DeleteFunc(x.loaded, func(o *shard) bool { return o == s }), s)
	chunks := int64(0)
	for i, l := range slices.Backward(x.loaded) {
		chunks += l.size.Load()
		if l != s && (len(x.loaded)-i > maxLoaded || chunks > maxLoadedChunks) {
			inUse := slices.DeleteFunc(slices.Clone(x.loaded[:i+1]), (*shard).free)
			x.loaded = slices.Replace(x.loaded, 0, i+1, inUse...)
			break
		}
	}
	return s, nil
}
