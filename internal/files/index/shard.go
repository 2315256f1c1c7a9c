package index

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"sync"
	"sync/atomic"

	"github.com/stint-dev/stint/internal/files/format"
)

// shard is the index of one organisation.
type shard struct {
	dir  string
	size atomic.Int64 // chunks in memory

	mu      sync.Mutex // guards the fields below
	closed  bool
	log     *os.File         // nil if the shard is not loaded
	end     int64            // length of the log in bytes
	wasted  int64            // bytes of dropped sections
	packs   []section        // by offset
	numbers map[string]int   // index in the field packs, by the name of a pack that is not dropped
	last    map[uint32]int32 // by partOf a hash: number of the last chunk, counted from 1
	before  []int32          // for each chunk: number of the previous chunk with the same partOf, or 0
}

// section is the part of a log that describes a pack.
type section struct {
	name    string
	offset  int64
	sum     uint32
	first   int32 // number of its first chunk, counted from 0
	dropped bool
}

const (
	// maxChunks is the maximum number of chunks of an organisation. Packs that would
	// exceed it are not added.
	maxChunks = 1<<31 - 1
	// minWasted is the minimum number of bytes in dropped sections from which a log
	// is compacted.
	minWasted = 1 << 20
)

// load reads the log unless the shard is loaded. It removes all other files, such as
// those of earlier versions. After an error, the next call tries again.
func (s *shard) load() error {
	switch {
	case s.closed:
		return errClosed
	case s.log != nil:
		return nil
	}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return fmt.Errorf("making a folder of the chunk index: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(s.dir, logName), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("opening a log of the chunk index: %w", err)
	}
	s.log, s.end, s.wasted, s.packs = f, 0, 0, nil
	s.numbers, s.last, s.before = map[string]int{}, map[uint32]int32{}, nil
	if err := s.replay(); err != nil {
		s.unload()
		return fmt.Errorf("reading a log of the chunk index: %w", err)
	}
	files, err := os.ReadDir(s.dir)
	if err != nil {
		s.unload()
		return fmt.Errorf("reading a folder of the chunk index: %w", err)
	}
	for _, f := range files {
		if f.Name() != logName {
			_ = os.RemoveAll(filepath.Join(s.dir, f.Name())) // a file that cannot be removed does no harm
		}
	}
	return nil
}

// unload frees the memory. The next load reads the log again.
func (s *shard) unload() {
	if s.log == nil {
		return
	}
	s.log.Close()
	s.log, s.packs, s.numbers, s.last, s.before = nil, nil, nil, nil, nil
	s.size.Store(0)
}

// free unloads the shard and returns true, unless the shard is in use.
func (s *shard) free() bool {
	if !s.mu.TryLock() {
		return false
	}
	defer s.mu.Unlock()
	s.unload()
	return true
}

// close unloads the shard for good.
func (s *shard) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.unload()
}

// enter adds a pack to the fields of the shard. The section p of the pack and its
// records are already in the log.
func (s *shard) enter(p section, records []byte) {
	p.first = int32(len(s.before))
	for ; len(records) > 0; records = records[recordSize:] {
		part := partOf(records)
		s.before = append(s.before, s.last[part])
		s.last[part] = int32(len(s.before))
	}
	s.numbers[p.name] = len(s.packs)
	s.packs = append(s.packs, p)
	s.size.Store(int64(len(s.before)))
}

// find calls visit for the chunks with the hash h until visit returns false. If a
// record is damaged, find empties the log and unloads the shard.
func (s *shard) find(h *format.Hash, visit func(format.Chunk) bool) error {
	for n := s.last[partOf(h[:])]; n > 0; n = s.before[n-1] {
		i := sort.Search(len(s.packs), func(i int) bool { return s.packs[i].first >= n }) - 1
		p := &s.packs[i]
		if p.dropped {
			continue
		}
		c, ok := p.readChunk(s.log, n-1-p.first)
		if !ok {
			return s.reset()
		}
		if c.Hash == *h && !visit(c) {
			return nil
		}
	}
	return nil
}

// has reports whether the pack is in the shard.
func (s *shard) has(pack string) bool {
	_, ok := s.numbers[pack]
	return ok
}

// add adds a pack that the shard does not have.
func (s *shard) add(pack string, segments []format.Segment) error {
	if len(segments) > maxChunks-len(s.before) {
		return nil
	}
	b, sum := encodeSection(pack, segments)
	if _, err := s.log.WriteAt(b, s.end); err != nil {
		return fmt.Errorf("writing to a log of the chunk index: %w", err)
	}
	s.enter(section{name: pack, offset: s.end, sum: sum}, b[sectionHead+len(pack):])
	s.end += int64(len(b))
	return nil
}

// drop marks packs as dropped and waits until the log is on the disk. It waits even if
// the log has no such pack, because the latest truncation or renaming of the log may not
// be on the disk yet. After an error, drop can be repeated.
func (s *shard) drop(packs []string) error {
	var errs []error
	for _, name := range packs {
		n, ok := s.numbers[name]
		if !ok {
			continue
		}
		delete(s.numbers, name)
		s.packs[n].dropped = true
		s.wasted += s.sectionEnd(n) - s.packs[n].offset
		errs = append(errs, s.packs[n].writeDropped(s.log))
	}
	if err := errors.Join(append(errs, s.log.Sync(), s.syncDir())...); err != nil {
		s.unload() // the next load shows which marks were written
		return fmt.Errorf("dropping packs from a log of the chunk index: %w", err)
	}
	if s.wasted >= minWasted && s.wasted >= s.end/2 {
		// A failure does no harm: the log is longer than necessary, and the next drop
		// tries again. On a full disk, drop must succeed before packs can be deleted.
		_ = s.compact()
	}
	return nil
}

// syncDir waits until the names of files in the folder are on the disk.
func (s *shard) syncDir() error {
	d, err := os.Open(s.dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// sectionEnd returns the offset at which the section of pack n ends.
func (s *shard) sectionEnd(n int) int64 {
	if n+1 < len(s.packs) {
		return s.packs[n+1].offset
	}
	return s.end
}

// reset empties a damaged log, as if its packs had never been added, and unloads the
// shard.
func (s *shard) reset() error {
	err := s.log.Truncate(0)
	s.unload()
	if err != nil {
		return fmt.Errorf("emptying a damaged log of the chunk index: %w", err)
	}
	return nil
}
