package index

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
)

const (
	tableFull  = 1 << 15 // chunks
	tableSmall = 1 << 11 // chunks; a smaller one is not worth a run
	namesBatch = 1024    // packs that names gives
)

// shard is the index of one organisation.
type shard struct {
	dir    string
	tabled *atomic.Int64 // chunks in tables of all shards

	users int           // guarded by the index's lock, as used and gone are
	used  uint64        // when, last
	gone  chan struct{} // set while the shard is closed to make room, and closed then

	mu      sync.RWMutex // guards what follows
	written sync.Cond    // frozen has become nil, or closed true
	loaded  bool
	closed  bool
	active  *table
	frozen  *table // becomes a run; nothing is added to it
	runs    []*run
	next    uint64   // number of the next run
	writers int      // runs being written
	late    []string // packs dropped since writers was 0
	fault   error    // of the worker, for the next Add
}

func newShard(dir string, tabled *atomic.Int64) *shard {
	s := &shard{dir: dir, tabled: tabled, active: newTable()}
	s.written.L = &s.mu
	return s
}

// load opens the shard, if it is not open, and tells whether runs should be
// merged now. After an error the next call tries again.
func (s *shard) load() (crowded bool, err error) {
	s.mu.RLock()
	loaded := s.loaded
	s.mu.RUnlock()
	if loaded {
		return false, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return false, errClosed
	case s.loaded:
		return false, nil
	}
	if err := s.open(); err != nil {
		for _, r := range s.runs {
			r.file.Close()
		}
		s.runs = nil
		return false, err
	}
	s.loaded = true
	return s.plan() != nil, nil
}

// open opens the runs that are sound and removes what does not count. What
// cannot be looked at, for want of descriptors maybe, is no reason to remove it.
func (s *shard) open() error {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return fmt.Errorf("making a folder of the chunk index: %w", err)
	}
	st, err := readState(s.dir)
	if err != nil {
		return err
	}
	s.next = st.Next
	keep := map[string]bool{stateName: true}
	for _, f := range st.Runs {
		r, err := openRun(filepath.Join(s.dir, filepath.Base(f.Name)), f.Name, f.Sum)
		switch {
		case err == nil:
			s.runs = append(s.runs, r)
			keep[f.Name] = true
		case !errors.Is(err, errDamaged) && !errors.Is(err, fs.ErrNotExist):
			return fmt.Errorf("opening a run of the chunk index: %w", err)
		}
	}
	files, err := os.ReadDir(s.dir)
	if err != nil {
		return fmt.Errorf("reading a folder of the chunk index: %w", err)
	}
	for _, f := range files {
		if !keep[f.Name()] {
			_ = os.RemoveAll(filepath.Join(s.dir, f.Name())) // what stays does not count
		}
	}
	for _, p := range st.Dropped {
		s.mark(p)
	}
	return nil
}

// mark makes a pack's chunks vanish and tells in how many runs they were.
func (s *shard) mark(pack string) (inRuns int) {
	for _, t := range s.tables() {
		t.drop(pack)
	}
	for _, r := range slices.Clone(s.runs) {
		was, err := r.drop(pack)
		if err != nil {
			s.remove(r)
		} else if was {
			inRuns++
		}
	}
	if s.writers > 0 {
		s.late = append(s.late, pack)
	}
	return inRuns
}

func (s *shard) tables() []*table {
	if s.frozen == nil {
		return []*table{s.active}
	}
	return []*table{s.active, s.frozen}
}

// find visits the places of h until visit wants no more. It begins anew where
// it meets a damaged run, without that run.
func (s *shard) find(h *Hash, visit func(Place) bool) error {
	for {
		bad, err := s.search(h, visit)
		if bad == nil {
			return err
		}
		s.mu.Lock()
		s.remove(bad)
		s.mu.Unlock()
	}
}

func (s *shard) search(h *Hash, visit func(Place) bool) (bad *run, err error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return nil, errClosed
	}
	if !s.active.find(h, visit) || s.frozen != nil && !s.frozen.find(h, visit) {
		return nil, nil
	}
	for _, r := range s.runs {
		more, err := r.find(h, visit)
		if err != nil {
			return r, nil
		}
		if !more {
			return nil, nil
		}
	}
	return nil, nil
}

// remove forgets a damaged run, as if its packs had never been added. The lock
// is held for writing.
func (s *shard) remove(bad *run) {
	i := slices.Index(s.runs, bad)
	if i < 0 {
		return // somebody was faster
	}
	s.runs = slices.Delete(s.runs, i, i+1)
	s.erase(bad)
	// The file of state may name the run still: it is not there then.
}

// erase deletes the file of a run that counts no more.
func (s *shard) erase(r *run) {
	r.file.Close()
	_ = os.Remove(filepath.Join(s.dir, r.name)) // or the next load does
}

// add puts a pack into the table and tells whether the worker has to write it.
func (s *shard) add(pack string, chunks []Chunk, refused func() bool, crowded bool) (full bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return false, errClosed
	case s.knows(pack) || refused():
		return false, nil
	}
	s.active.add(pack, chunks)
	s.tabled.Add(int64(len(chunks)))
	err, s.fault = s.fault, nil
	n := len(s.active.records) + len(s.active.names)
	if n < tableFull && (!crowded || n < tableSmall) {
		return false, err
	}
	for s.frozen != nil && !s.closed {
		s.written.Wait()
	}
	if s.closed {
		return false, errors.Join(err, errClosed)
	}
	if len(s.active.records)+len(s.active.names) < tableSmall {
		return false, err // another Add froze it meanwhile
	}
	s.frozen, s.active = s.active, newTable()
	return true, err
}

// has tells whether the pack is there.
func (s *shard) has(pack string) bool {
	s.mu.Lock() // a damaged run goes
	defer s.mu.Unlock()
	return !s.closed && s.knows(pack)
}

func (s *shard) knows(pack string) bool {
	for _, t := range s.tables() {
		if t.has(pack) {
			return true
		}
	}
	for _, r := range slices.Clone(s.runs) {
		has, err := r.has(pack)
		if err != nil {
			s.remove(r)
		} else if has {
			return true
		}
	}
	return false
}

// names gives the first packs after a name, in order; none at the end.
func (s *shard) names(after string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	var all []string
	for _, t := range s.tables() {
		all = append(all, t.after(after, namesBatch)...)
	}
	for _, r := range slices.Clone(s.runs) {
		names, err := r.after(after, namesBatch)
		if err != nil {
			s.remove(r)
		}
		all = append(all, names...)
	}
	slices.Sort(all)
	all = slices.Compact(all)
	return all[:min(len(all), namesBatch)]
}

// drop marks packs, durably where runs on the disk hold them, and tells
// whether runs should be written without them.
func (s *shard) drop(packs []string) (dense bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false, errClosed
	}
	onDisk := 0
	for _, p := range packs {
		onDisk += s.mark(p)
	}
	if onDisk == 0 {
		return false, nil
	}
	err = s.save(true)
	return s.plan() != nil, err
}

// save writes the state. The lock is held.
func (s *shard) save(sync bool) error {
	st := state{Next: s.next}
	for _, r := range s.runs {
		st.Runs = append(st.Runs, runState{r.name, r.sum})
		for _, p := range r.dead {
			st.Dropped = append(st.Dropped, p)
		}
	}
	slices.SortFunc(st.Dropped, cmp.Compare[string])
	st.Dropped = slices.Compact(st.Dropped)
	return st.write(s.dir, sync)
}

// close writes what is in memory and closes the files. Nobody may load the
// shard from then on.
func (s *shard) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	was := s.closed
	s.closed = true
	s.written.Broadcast()
	if was || !s.loaded {
		return nil
	}
	var errs []error
	for _, t := range s.tables() {
		s.tabled.Add(-int64(len(t.records)))
		if len(t.names) == 0 {
			continue
		}
		r, err := s.writeRun(s.runName(), t.width(), t.source())
		if err == nil {
			s.runs = append(s.runs, r)
		}
		errs = append(errs, err)
	}
	errs = append(errs, s.save(false))
	for _, r := range s.runs {
		r.file.Close()
	}
	return errors.Join(errs...)
}
