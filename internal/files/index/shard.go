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
	tableSmall = 1 << 11 // chunks; smaller tables are not written as runs
	namesBatch = 1024    // packs per call of names
)

// shard is the index of one organisation.
type shard struct {
	dir    string
	tabled *atomic.Int64 // chunks in tables of all shards

	users int           // guarded by the index's lock, like used and gone
	used  uint64        // time of the last use
	gone  chan struct{} // set while the shard is being evicted, closed afterwards

	mu      sync.RWMutex // guards the fields below
	written sync.Cond    // frozen became nil or closed became true
	loaded  bool
	closed  bool
	active  *table
	frozen  *table // being written as a run; nothing is added to it
	runs    []*run
	next    uint64   // number of the next run
	writers int      // runs being written
	late    []string // packs dropped since writers was 0
	fault   error    // of the worker, returned by the next Add
}

func newShard(dir string, tabled *atomic.Int64) *shard {
	s := &shard{dir: dir, tabled: tabled, active: newTable()}
	s.written.L = &s.mu
	return s
}

// load opens the shard if it is not open and reports whether runs should be
// merged. After an error the next call tries again.
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

// open opens the valid runs and removes other files. A file that cannot be opened,
// for example for lack of descriptors, is not removed.
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
			_ = os.RemoveAll(filepath.Join(s.dir, f.Name())) // remaining files are ignored
		}
	}
	for _, p := range st.Dropped {
		s.mark(p)
	}
	return nil
}

// mark marks a pack as dropped and returns the number of runs that hold it.
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

// find calls visit for the places of h until it returns false. If it finds a
// damaged run, it starts again without that run.
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

// remove removes a damaged run, as if its packs had never been added. The caller
// holds the lock for writing.
func (s *shard) remove(bad *run) {
	i := slices.Index(s.runs, bad)
	if i < 0 {
		return // removed by another goroutine
	}
	s.runs = slices.Delete(s.runs, i, i+1)
	s.erase(bad)
	// The state file may still list the run, which is missing then.
}

// erase deletes the file of a run that is not valid any more.
func (s *shard) erase(r *run) {
	r.file.Close()
	_ = os.Remove(filepath.Join(s.dir, r.name)) // on failure the next load removes it
}

// add adds a pack to the table and reports whether the worker has to write the
// table.
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
		return false, err // another Add froze it
	}
	s.frozen, s.active = s.active, newTable()
	return true, err
}

// has reports whether the pack is in the shard.
func (s *shard) has(pack string) bool {
	s.mu.Lock() // removes a damaged run
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

// names returns the first packs after a name, in order; none at the end.
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

// drop marks packs as dropped, durably if runs hold them, and reports whether runs
// should be rewritten without them.
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

// save writes the state. The caller holds the lock.
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

// close writes the table and closes the files. The shard must not be loaded
// afterwards.
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
