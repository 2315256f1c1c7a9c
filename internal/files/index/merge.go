package index

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/bits"
	"os"
	"path/filepath"
	"slices"
)

const (
	mergeAt  = 4       // this many runs of similar size become one
	levelOne = 1 << 14 // chunks; smaller runs are of the same level
	maxDead  = 1 << 14 // dropped packs that may remain in runs
)

// work writes the frozen table and merges runs until there is nothing to do. One
// goroutine calls it.
func (s *shard) work(ctx context.Context) {
	err := s.freeze()
	for err == nil && ctx.Err() == nil {
		s.mu.Lock()
		from := s.plan()
		s.mu.Unlock()
		if from == nil {
			return
		}
		err = s.merge(ctx, from)
	}
	if err != nil && ctx.Err() == nil {
		s.mu.Lock()
		s.fault = err
		s.mu.Unlock()
	}
}

// freeze writes the frozen table, if there is one, as a run. A table that cannot
// be written is lost.
func (s *shard) freeze() error {
	s.mu.Lock()
	t := s.frozen
	if t == nil {
		s.mu.Unlock()
		return nil
	}
	name, late := s.begin()
	source := t.source()
	s.mu.Unlock()
	r, err := s.writeRun(name, t.width(), source)
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.end()
	s.frozen = nil
	s.written.Broadcast()
	s.tabled.Add(-int64(len(t.records)))
	if err != nil {
		return err
	}
	s.take(r, late)
	return s.save(false)
}

// begin names a new run; late is the index in s.late of the packs that are dropped
// from now on. The caller holds the lock, as for end and take.
func (s *shard) begin() (name string, late int) {
	s.writers++
	return s.runName(), len(s.late)
}

func (s *shard) end() {
	if s.writers--; s.writers == 0 {
		s.late = nil
	}
}

// take makes a new run valid, without the packs that were dropped while it was
// written.
func (s *shard) take(r *run, late int) {
	s.runs = append(s.runs, r)
	for _, p := range s.late[late:] {
		if _, err := r.drop(p); err != nil {
			s.remove(r)
			return
		}
	}
}

func (s *shard) runName() string {
	s.next++
	return fmt.Sprintf("run-%016x", s.next)
}

func (s *shard) writeRun(name string, width int, source func(*runWriter) error) (*run, error) {
	path := filepath.Join(s.dir, name)
	w, err := newRunWriter(path, width)
	if err != nil {
		return nil, err
	}
	var r *run
	if err = source(w); err == nil {
		r, err = w.finish(name)
	}
	if err != nil {
		w.file.Close()
		_ = os.Remove(path) // on failure the next load removes it
		return nil, err
	}
	return r, nil
}

// level returns the size class of a run; classes differ by a factor of four.
func level(r *run) int { return bits.Len64(r.records/levelOne) / 2 }

// plan returns the runs to merge: all of a level, or one with many dropped packs.
// The caller holds the lock.
func (s *shard) plan() []*run {
	levels := map[int][]*run{}
	var worst *run
	dead := 0
	for _, r := range s.runs {
		levels[level(r)] = append(levels[level(r)], r)
		dead += len(r.dead)
		if worst == nil || len(r.dead) > len(worst.dead) {
			worst = r
		}
	}
	for _, l := range slices.Sorted(maps.Keys(levels)) {
		if len(levels[l]) >= mergeAt {
			return levels[l]
		}
	}
	if worst != nil && len(worst.dead) > 0 && (dead > maxDead || len(worst.dead) > int(worst.packs)/4) {
		return []*run{worst}
	}
	return nil
}

// merge merges runs into one. If one of them is damaged, merge removes that one
// and stops without an error.
func (s *shard) merge(ctx context.Context, from []*run) error {
	m := merger{ctx: ctx, pause: s.freeze}
	s.mu.Lock()
	name, late := s.begin()
	width := 1
	for _, r := range from {
		m.from = append(m.from, &cursor{run: r, dead: maps.Clone(r.dead)})
		width = max(width, int(r.width))
	}
	s.mu.Unlock()
	r, err := s.writeRun(name, width, m.write)
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.end()
	if m.bad != nil {
		s.remove(m.bad)
		return nil
	}
	if err != nil {
		return err
	}
	for _, f := range from {
		if !slices.Contains(s.runs, f) { // found damaged by a reader
			s.erase(r)
			return nil
		}
	}
	s.runs = slices.DeleteFunc(s.runs, func(r *run) bool { return slices.Contains(from, r) })
	s.take(r, late)
	err = s.save(false)
	for _, f := range from {
		s.erase(f)
	}
	return err
}

// merger merges runs.
type merger struct {
	ctx   context.Context
	pause func() error // called now and then
	from  []*cursor
	bad   *run  // the damaged one
	err   error // why the merge stopped
}

// cursor reads a run in order.
type cursor struct {
	run    *run
	dead   map[uint32]string
	number []uint32 // of packs in the new run

	buf   []byte // blocks starting with
	block int    // this one
	at    uint64 // number of the record or pack
	name  string // of the pack
	head  record // the record
}

const (
	readAhead = 64      // blocks
	pauseEach = 1 << 13 // records
	noPack    = ^uint32(0)
)

func (m *merger) write(w *runWriter) error {
	total := 0
	for _, c := range m.from {
		c.number = make([]uint32, c.run.packs)
		total += int(c.run.records)
	}
	if err := m.eachPack(w); err != nil {
		return err
	}
	w.expect(total)
	return m.eachRecord(w)
}

// eachPack writes the names of the packs that are not dropped.
func (m *merger) eachPack(w *runWriter) error {
	left := m.start((*cursor).nextPack)
	for len(left) > 0 && m.err == nil {
		least := slices.MinFunc(left, func(a, b *cursor) int { return bytes.Compare([]byte(a.name), []byte(b.name)) })
		if err := w.pack(least.name); err != nil {
			return err
		}
		least.number[least.at-1] = w.packs - 1
		left = m.step(left, least, (*cursor).nextPack)
	}
	return m.err
}

// eachRecord writes the chunks of those packs.
func (m *merger) eachRecord(w *runWriter) error {
	left := m.start((*cursor).nextRecord)
	for len(left) > 0 && m.err == nil {
		least := left[0]
		for _, c := range left[1:] {
			if bytes.Compare(c.head.hash[:], least.head.hash[:]) < 0 {
				least = c
			}
		}
		if err := w.record(&least.head); err != nil {
			return err
		}
		if w.records%pauseEach == 0 {
			if err := m.pause(); err != nil {
				return err
			}
		}
		left = m.step(left, least, (*cursor).nextRecord)
	}
	return m.err
}

type advance func(*cursor, context.Context) (bool, error)

// start moves all cursors to their first item and returns those that have one.
func (m *merger) start(next advance) []*cursor {
	left := slices.Clone(m.from)
	for _, c := range m.from {
		c.at = 0
		left = m.step(left, c, next)
	}
	return left
}

// step moves a cursor on and removes it from left at its end.
func (m *merger) step(left []*cursor, c *cursor, next advance) []*cursor {
	ok, err := next(c, m.ctx)
	if errors.Is(err, errDamaged) {
		m.bad = c.run
	}
	if err != nil {
		m.err = err
		return nil
	}
	if ok {
		return left
	}
	return slices.DeleteFunc(left, func(o *cursor) bool { return o == c })
}

// nextPack moves to the next pack that is not dropped; at counts it already.
func (c *cursor) nextPack(ctx context.Context) (bool, error) {
	per := uint64(c.run.namesPerBlock())
	for c.at < uint64(c.run.packs) {
		b, err := c.load(ctx, int(c.at/per), c.run.packBlocks())
		if err != nil {
			return false, err
		}
		n := c.at
		c.at++
		if _, dead := c.dead[uint32(n)]; dead {
			c.number[n] = noPack
			continue
		}
		c.name = unpad(b[int(n%per)*int(c.run.width):][:c.run.width])
		return true, nil
	}
	return false, nil
}

// nextRecord moves to the next chunk of a pack that is not dropped.
func (c *cursor) nextRecord(ctx context.Context) (bool, error) {
	first := c.run.packBlocks()
	for c.at < c.run.records {
		b, err := c.load(ctx, first+int(c.at/perBlock), first+c.run.recordBlocks())
		if err != nil {
			return false, err
		}
		c.head.parse(b[int(c.at%perBlock)*recordSize:][:recordSize])
		c.at++
		if c.head.pack >= c.run.packs {
			return false, errDamaged
		}
		if c.head.pack = c.number[c.head.pack]; c.head.pack != noPack {
			return true, nil
		}
	}
	return false, nil
}

// load returns block i, which is before end.
func (c *cursor) load(ctx context.Context, i, end int) ([]byte, error) {
	if i < c.block || (i-c.block+1)*blockSize > len(c.buf) {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		n := min(readAhead, end-i) * blockSize
		c.buf = slices.Grow(c.buf[:0], n)[:n]
		c.block = i
		if _, err := c.run.file.ReadAt(c.buf, int64(i)*blockSize); err != nil {
			c.buf = c.buf[:0]
			return nil, fmt.Errorf("%w: %w", errDamaged, err)
		}
		for at := 0; at < n; at += blockSize {
			if err := checkBlock(c.buf[at:][:blockSize]); err != nil {
				return nil, err
			}
		}
	}
	return c.buf[(i-c.block)*blockSize:][:blockSize], nil
}
