package transfer

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/stint-dev/stint/internal/files"
	"github.com/stint-dev/stint/internal/files/treewire"
	"github.com/stint-dev/stint/internal/localdir"
)

// scan turns the entries of a folder into a tree and finds its chunks, in one
// goroutine.
type scan struct {
	push   *push
	trust  bool
	old    *cacheReader
	new    *cacheWriter
	tree   *treewire.TreeWriter
	cutter files.Cutter
	seen   map[treewire.Hash]struct{} // chunks that were handed on or need not be
}

func newScan(p *push, trust bool) (*scan, error) {
	s := &scan{push: p, old: openCache(p.o.Cache), seen: map[treewire.Hash]struct{}{}}
	s.trust = trust && s.old.there
	var err error
	if s.tree, err = treewire.NewTreeWriter(p.out); err == nil {
		s.new, err = createCache(p.o.Cache)
	}
	if err != nil {
		s.old.close()
		return nil, err
	}
	return s, nil
}

func (s *scan) close() {
	s.old.close()
	s.new.drop()
}

// remember keeps what was learned for the next time; there says that the
// server has all of it. A cache that cannot be kept is no reason to fail.
func (s *scan) remember(there bool) {
	for !there && s.old.next != nil { // what the scan did not reach
		s.new.add(s.old.next)
		s.old.advance()
	}
	_ = s.new.keep(there)
}

func (s *scan) all(ctx context.Context) error {
	for _, e := range s.push.files.Entries() {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		if err := s.entry(ctx, e); err != nil {
			return err
		}
	}
	if err := s.tree.Close(); err != nil {
		return err
	}
	if err := s.push.out.Flush(); err != nil {
		return fmt.Errorf("write the tree: %w", err)
	}
	return nil
}

func (s *scan) entry(ctx context.Context, e localdir.Entry) error {
	w := entryOf(e.Path, e.Info)
	switch {
	case e.Info.IsDir():
		w.Kind = treewire.Folder
	case e.Target != "":
		w.Kind, w.Mode, w.Target = treewire.Link, 0o777, e.Target
	default:
		return s.file(ctx, e)
	}
	return s.tree.Add(w)
}

func entryOf(path string, info fs.FileInfo) *treewire.Entry {
	at := info.ModTime()
	return &treewire.Entry{Path: path, Mode: uint16(info.Mode().Perm()), Sec: at.Unix(), Nsec: int32(at.Nanosecond())}
}

func (s *scan) file(ctx context.Context, e localdir.Entry) error {
	if known := s.old.of(e.Path, e.Info); known != nil {
		s.new.add(known)
		w := entryOf(e.Path, e.Info)
		w.Kind, w.Size, w.Chunks = treewire.File, known.stat.size, known.chunks
		w.Sum = known.sum
		return s.hand(ctx, w, s.trust)
	}
	w, err := s.read(ctx, e)
	if w == nil || err != nil {
		return err
	}
	return s.hand(ctx, w, false)
}

// hand passes an entry to the tree and its new chunks on to be asked for,
// unless the server is known to have them.
func (s *scan) hand(ctx context.Context, w *treewire.Entry, there bool) error {
	offset := int64(0)
	for _, c := range w.Chunks {
		_, seen := s.seen[c.Hash]
		s.seen[c.Hash] = struct{}{}
		if seen || there {
			s.push.o.Progress.Done(int64(c.Raw))
		} else {
			select {
			case s.push.found <- ref{c, w.Path, offset}:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		offset += int64(c.Raw)
	}
	return s.tree.Add(w)
}

// read cuts a file into chunks; nil for one that is gone.
func (s *scan) read(ctx context.Context, e localdir.Entry) (*treewire.Entry, error) {
	f, err := s.push.files.OpenFile(e.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("read %s: %w", e.Path, err)
	}
	defer f.Close()
	now := s.push.o.Now()
	before, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", e.Path, err)
	}
	if !os.SameFile(before, e.Info) {
		return nil, fmt.Errorf("%s: %w", e.Path, errChanged)
	}
	w := entryOf(e.Path, before)
	w.Kind = treewire.File
	if err := cutFile(ctx, &s.cutter, f, before.Size(), w); err != nil {
		return nil, fmt.Errorf("read %s: %w", e.Path, err)
	}
	known := &cached{path: e.Path, stat: statOf(before), sum: w.Sum, chunks: w.Chunks}
	if after, err := f.Stat(); err == nil && statOf(after) == known.stat && known.stat.settled(now) {
		s.new.add(known)
	}
	return w, nil
}

// cutFile sets the chunks, the size and the sum of e to those of f, which has
// some size bytes.
func cutFile(ctx context.Context, c *files.Cutter, f io.Reader, size int64, e *treewire.Entry) error {
	c.Reset(f)
	whole := sha256.New()
	several := size > files.MaxSingleChunk
	for ctx.Err() == nil {
		piece, err := c.Next()
		if errors.Is(err, io.EOF) {
			if len(e.Chunks) > 1 {
				whole.Sum(e.Sum[:0])
			}
			return nil
		} else if err != nil {
			return err
		}
		e.Chunks = append(e.Chunks, treewire.Chunk{Hash: sha256.Sum256(piece), Raw: uint32(len(piece))})
		e.Size += int64(len(piece))
		if several {
			whole.Write(piece)
		} else if len(e.Chunks) > 1 {
			return errChanged // it grew
		}
	}
	return context.Cause(ctx)
}
