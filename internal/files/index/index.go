package index

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/stint-dev/stint/internal/blob"
)

// Hash is the name of a chunk: the SHA-256 of its content.
type Hash = [32]byte

// Place is the position of a chunk's segment.
type Place struct {
	Pack   string
	Offset uint32 // bytes from the start of the pack
	Stored uint32 // bytes of the segment
	Raw    uint32 // bytes of the content
	CRC    uint32 // CRC-32 (IEEE) of the content
}

// Chunk is a segment of the pack it is added with.
type Chunk struct {
	Hash   Hash
	Offset uint32 // bytes from the start of the pack
	Stored uint32 // bytes of the segment
	Raw    uint32 // bytes of the content
	CRC    uint32 // CRC-32 (IEEE) of the content
}

// ErrInUse is returned by Open if another Index has the folder open.
var ErrInUse = errors.New("chunk index: the folder is in use by another process")

var errClosed = errors.New("chunk index: the index is closed")

const (
	maxOpen   = 32      // organisations with open files
	maxTables = 1 << 16 // chunks in the tables of all organisations, beyond which small tables are written
	maxName   = blob.MaxElement
)

// Index finds the chunks of each organisation. It is safe for concurrent use. One
// goroutine writes and merges runs; Close ends it.
type Index struct {
	dir  string
	lock *os.File

	wake   chan struct{}
	cancel context.CancelFunc
	worker sync.WaitGroup
	gone   recent
	tabled atomic.Int64 // chunks in tables

	mu      sync.Mutex // guards the fields below; acquired before a shard's lock
	closed  bool
	clock   uint64 // counts uses
	shards  map[string]*shard
	waiting []*shard // shards with work for the worker, in use until it is done
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
	ctx, cancel := context.WithCancel(context.Background())
	x := &Index{dir: dir, lock: lock, wake: make(chan struct{}, 1), cancel: cancel, shards: map[string]*shard{}}
	x.worker.Go(func() { x.work(ctx) })
	return x, nil
}

// Close writes the tables and releases the folder. Other methods fail or find
// nothing afterwards.
func (x *Index) Close() error {
	x.mu.Lock()
	if x.closed {
		x.mu.Unlock()
		return nil
	}
	x.closed = true
	x.mu.Unlock()
	x.cancel()
	x.worker.Wait()
	x.mu.Lock()
	defer x.mu.Unlock()
	var errs []error
	for org, s := range x.shards {
		errs = append(errs, s.close())
		delete(x.shards, org)
	}
	return errors.Join(append(errs, x.lock.Close())...)
}

// Find returns a place of the chunk, any of them if several packs hold it.
func (x *Index) Find(org string, h Hash) (Place, bool, error) {
	var at Place
	found := false
	err := x.with(org, func(s *shard) error {
		return s.find(&h, func(p Place) bool { at, found = p, true; return false })
	})
	return at, found, err
}

// Places returns all places of the chunk, ordered by the names of the packs.
func (x *Index) Places(org string, h Hash) ([]Place, error) {
	var all []Place
	err := x.with(org, func(s *shard) error {
		return s.find(&h, func(p Place) bool { all = append(all, p); return true })
	})
	slices.SortFunc(all, func(a, b Place) int {
		return cmp.Or(cmp.Compare(a.Pack, b.Pack), cmp.Compare(a.Offset, b.Offset))
	})
	return slices.Compact(all), err // a repeated search visits places twice
}

// Add adds all chunks of a pack at once. A pack that is known or was dropped is
// ignored: packs never change, and their names are unique. An error may mean that
// chunks of an earlier Add could not be written and are lost.
func (x *Index) Add(org, pack string, chunks []Chunk) error {
	if pack == "" || len(pack) > maxName || strings.ContainsRune(pack, 0) {
		return fmt.Errorf("chunk index: %q is not a pack name", pack)
	}
	return x.with(org, func(s *shard) error {
		refused := func() bool { return x.gone.has(org, pack) }
		full, err := s.add(pack, chunks, refused, x.tabled.Load() > maxTables)
		if full {
			x.enqueue(s)
		}
		return err
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
// used and changed meanwhile.
func (x *Index) Packs(org string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for after := ""; ; {
			var names []string
			err := x.with(org, func(s *shard) error {
				names = s.names(after)
				return nil
			})
			if err != nil || len(names) == 0 {
				return
			}
			for _, n := range names {
				if !yield(n) {
					return
				}
			}
			after = names[len(names)-1]
		}
	}
}

// Drop removes packs. After it has returned, their chunks are not found there
// again, even after a power failure, so the packs may be deleted.
func (x *Index) Drop(org string, packs []string) error {
	return x.with(org, func(s *shard) error {
		x.gone.add(org, packs) // first, so that no Add comes between
		dense, err := s.drop(packs)
		if dense {
			x.enqueue(s)
		}
		return err
	})
}

// with calls do with the organisation's shard, which stays open meanwhile.
func (x *Index) with(org string, do func(*shard) error) error {
	if strings.Contains(org, "/") || org == "lock" || blob.CheckKey(org) != nil {
		return fmt.Errorf("chunk index: %q is not an organisation's name", org)
	}
	s, err := x.acquire(org)
	if err != nil {
		return err
	}
	defer x.release(s)
	crowded, err := s.load()
	if err != nil {
		return err
	}
	if crowded {
		x.enqueue(s)
	}
	return do(s)
}

func (x *Index) acquire(org string) (*shard, error) {
	s, oldest, err := x.take(org)
	if oldest != nil {
		x.evict(oldest)
	}
	return s, err
}

// take returns the organisation's shard and one to be evicted for it.
func (x *Index) take(org string) (s, oldest *shard, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for s = x.shards[org]; s != nil && s.gone != nil; s = x.shards[org] {
		x.mu.Unlock()
		<-s.gone
		x.mu.Lock()
	}
	if x.closed {
		return nil, nil, errClosed
	}
	if s == nil {
		oldest = x.makeRoom()
		s = newShard(filepath.Join(x.dir, org), &x.tabled)
		x.shards[org] = s
	}
	s.users++
	x.clock++
	s.used = x.clock
	return s, oldest, nil
}

func (x *Index) release(s *shard) {
	x.mu.Lock()
	defer x.mu.Unlock()
	s.users--
}

// makeRoom removes the least recently used shard for evict if too many are open.
// The caller holds the lock.
func (x *Index) makeRoom() (oldest *shard) {
	if len(x.shards) < maxOpen {
		return nil
	}
	for _, s := range x.shards {
		if s.users == 0 && s.gone == nil && (oldest == nil || s.used < oldest.used) {
			oldest = s
		}
	}
	if oldest != nil { // if all are in use, exceed the limit
		oldest.gone = make(chan struct{})
	}
	return oldest
}

// evict closes a shard. Other shards can be used while it is written.
func (x *Index) evict(s *shard) {
	_ = s.close() // unwritten data is lost, which derived data may be
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.shards, filepath.Base(s.dir))
	close(s.gone)
}

// enqueue passes a shard that is in use to the worker.
func (x *Index) enqueue(s *shard) {
	x.mu.Lock()
	defer x.mu.Unlock()
	s.users++
	x.waiting = append(x.waiting, s)
	select {
	case x.wake <- struct{}{}:
	default:
	}
}

// work processes shards until ctx ends.
func (x *Index) work(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-x.wake:
		}
		for s := x.dequeue(); s != nil; s = x.dequeue() {
			s.work(ctx)
			x.release(s)
		}
	}
}

func (x *Index) dequeue() *shard {
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(x.waiting) == 0 {
		return nil
	}
	s := x.waiting[0]
	x.waiting = x.waiting[1:]
	return s
}

// recent holds the packs that were dropped last, so that a concurrent Add cannot
// add them again.
type recent struct {
	mu         sync.Mutex // guards both
	young, old map[string]struct{}
}

const maxRecent = 1 << 16 // of each

func (r *recent) add(org string, packs []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range packs {
		if r.young == nil || len(r.young) == maxRecent {
			r.young, r.old = map[string]struct{}{}, r.young
		}
		r.young[org+"/"+p] = struct{}{}
	}
}

func (r *recent) has(org, pack string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, young := r.young[org+"/"+pack]
	_, old := r.old[org+"/"+pack]
	return young || old
}
