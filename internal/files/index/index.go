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

// Hash names a chunk: the SHA-256 of its content.
type Hash = [32]byte

// Place says where a chunk's segment lies.
type Place struct {
	Pack   string
	Offset uint32 // bytes from the pack's beginning
	Stored uint32 // bytes of the segment
	Raw    uint32 // bytes of the content
	CRC    uint32 // CRC-32 (IEEE) of the content
}

// Chunk is a segment of the pack it is added with.
type Chunk struct {
	Hash   Hash
	Offset uint32 // bytes from the pack's beginning
	Stored uint32 // bytes of the segment
	Raw    uint32 // bytes of the content
	CRC    uint32 // CRC-32 (IEEE) of the content
}

// ErrInUse is what Open fails with where another Index has the folder.
var ErrInUse = errors.New("chunkindex: the folder is in use by another process")

var errClosed = errors.New("chunkindex: the index is closed")

const (
	maxOpen   = 32      // organisations with open files
	maxTables = 1 << 16 // chunks in the tables of all organisations, before small ones are written, too
	maxName   = blob.MaxElement
)

// Index finds chunks, for each organisation apart. It is safe for concurrent
// use. One goroutine writes and merges runs; Close ends it.
type Index struct {
	dir  string
	lock *os.File

	wake   chan struct{}
	cancel context.CancelFunc
	worker sync.WaitGroup
	gone   recent
	tabled atomic.Int64 // chunks in tables

	mu      sync.Mutex // guards what follows; taken before a shard's
	closed  bool
	clock   uint64 // counts uses
	shards  map[string]*shard
	waiting []*shard // with work for the worker; each is in use until that is done
}

// Open opens the index in dir, which it makes if need be. A folder that another
// Index has open, in this process or another one, gives ErrInUse.
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

// Close writes what is in memory and gives the folder free. Other methods fail
// or find nothing from then on.
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

// Find gives a place of the chunk, any one where several packs hold it.
func (x *Index) Find(org string, h Hash) (Place, bool, error) {
	var at Place
	found := false
	err := x.with(org, func(s *shard) error {
		return s.find(&h, func(p Place) bool { at, found = p, true; return false })
	})
	return at, found, err
}

// Places gives all places of the chunk, in the order of the packs' names.
func (x *Index) Places(org string, h Hash) ([]Place, error) {
	var all []Place
	err := x.with(org, func(s *shard) error {
		return s.find(&h, func(p Place) bool { all = append(all, p); return true })
	})
	slices.SortFunc(all, func(a, b Place) int {
		return cmp.Or(cmp.Compare(a.Pack, b.Pack), cmp.Compare(a.Offset, b.Offset))
	})
	return slices.Compact(all), err // a search that began anew visits twice
}

// Add says which chunks a pack holds: all of them, at once. A pack that is
// known already, or that was dropped, is left as it is: packs never change and
// their names are not used twice. An error may tell that chunks of an earlier
// Add could not be written and are lost.
func (x *Index) Add(org, pack string, chunks []Chunk) error {
	if pack == "" || len(pack) > maxName || strings.ContainsRune(pack, 0) {
		return fmt.Errorf("chunkindex: %q is no name of a pack", pack)
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

// Has tells whether the pack has been added, and neither dropped nor lost.
func (x *Index) Has(org, pack string) bool {
	has := false
	err := x.with(org, func(s *shard) error {
		has = s.has(pack)
		return nil
	})
	return has && err == nil
}

// Packs gives the packs that Has knows, in the order of their names. The index
// may be used, and changed, meanwhile.
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

// Drop forgets packs. Once it has returned their chunks are not found there
// again, whatever befalls the machine; they may be deleted then.
func (x *Index) Drop(org string, packs []string) error {
	return x.with(org, func(s *shard) error {
		x.gone.add(org, packs) // first: an Add must not come between
		dense, err := s.drop(packs)
		if dense {
			x.enqueue(s)
		}
		return err
	})
}

// with runs do with the organisation's shard, which stays open meanwhile.
func (x *Index) with(org string, do func(*shard) error) error {
	if strings.Contains(org, "/") || org == "lock" || blob.CheckKey(org) != nil {
		return fmt.Errorf("chunkindex: %q is no name of an organisation", org)
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

// take gives the organisation's shard, and one to be evicted for it.
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

// makeRoom chooses the shard that was used least recently where too many are
// open, for evict: nobody uses it from now on. The lock is held.
func (x *Index) makeRoom() (oldest *shard) {
	if len(x.shards) < maxOpen {
		return nil
	}
	for _, s := range x.shards {
		if s.users == 0 && s.gone == nil && (oldest == nil || s.used < oldest.used) {
			oldest = s
		}
	}
	if oldest != nil { // else all are in use: one more for as long
		oldest.gone = make(chan struct{})
	}
	return oldest
}

// evict closes a shard. As it is written meanwhile, others need not wait for it
// unless they want that very one.
func (x *Index) evict(s *shard) {
	_ = s.close() // what could not be written is lost, as data here may be
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.shards, filepath.Base(s.dir))
	close(s.gone)
}

// enqueue hands a shard that is in use to the worker.
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

// work serves shards until ctx ends.
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

// recent holds the packs that were dropped last, so that an Add that was on its
// way cannot bring them back.
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
