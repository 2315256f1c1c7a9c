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
	"github.com/stint-dev/stint/internal/files/format"
	"github.com/stint-dev/stint/internal/files/treewire"
	"github.com/stint-dev/stint/internal/localdir"
)

// scan reads the entries of a folder, writes the tree, and sends new chunks to the
// channel push.found. It is not safe for concurrent use.
type scan struct {
	push   *push
	trust  bool // assume that the server has all chunks in the cache
	old    *cacheReader
	new    *cacheWriter
	tree   *treewire.TreeWriter
	cutter files.Cutter
	seen   map[treewire.Hash]struct{} // chunks that were already processed
}

func newScan(p *push, trust bool) (*scan, error) {
	s := &scan{push: p, old: openCache(p.o.Cache), seen: map[treewire.Hash]struct{}{}}
	s.trust = trust && s.old.onServer
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
	s.new.discard()
}

// saveCache writes the cache for the next transfer. onServer reports whether the
// server has all its chunks. Errors are ignored, because a push works without a cache.
func (s *scan) saveCache(onServer bool) {
	for !onServer && s.old.next != nil { // keep the files that the scan did not reach
		s.new.add(s.old.next)
		s.old.advance()
	}
	_ = s.new.commit(onServer)
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
		w.Kind = format.Folder
	case e.Target != "":
		w.Kind, w.Mode, w.Target = format.Symlink, 0o777, e.Target
	default:
		return s.file(ctx, e)
	}
	return s.tree.Add(w)
}

func entryOf(path string, info fs.FileInfo) *format.Entry {
	at := info.ModTime()
	return &format.Entry{Path: path, Mode: uint16(info.Mode().Perm()), Sec: at.Unix(), Nsec: int32(at.Nanosecond())}
}

func (s *scan) file(ctx context.Context, e localdir.Entry) error {
	if known := s.old.findUnchanged(e.Path, e.Info); known != nil {
		s.new.add(known)
		w := entryOf(e.Path, e.Info)
		w.Kind, w.Size, w.Chunks = format.File, known.stat.size, known.chunks
		w.SHA256 = known.sum
		return s.emit(ctx, w, s.trust)
	}
	w, err := s.read(ctx, e)
	if w == nil || err != nil {
		return err
	}
	return s.emit(ctx, w, false)
}

// emit adds an entry to the tree. It sends the chunks of the entry that were not seen
// before to the found channel, unless the server has them (onServer).
func (s *scan) emit(ctx context.Context, w *format.Entry, onServer bool) error {
	offset := int64(0)
	for _, c := range w.Chunks {
		_, seen := s.seen[c.Hash]
		s.seen[c.Hash] = struct{}{}
		if seen || onServer {
			s.push.o.Progress.Done(int64(c.Size))
		} else {
			select {
			case s.push.found <- chunkRef{c, w.Path, offset}:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		offset += int64(c.Size)
	}
	return s.tree.Add(w)
}

// read splits a file into chunks. If the file no longer exists, it returns nil and no
// error.
func (s *scan) read(ctx context.Context, e localdir.Entry) (*format.Entry, error) {
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
	w.Kind = format.File
	if err := splitFile(ctx, &s.cutter, f, before.Size(), w); err != nil {
		return nil, fmt.Errorf("read %s: %w", e.Path, err)
	}
	known := &cachedFile{path: e.Path, stat: statOf(before), sum: w.SHA256, chunks: w.Chunks}
	if after, err := f.Stat(); err == nil && statOf(after) == known.stat && known.stat.settled(now) {
		s.new.add(known)
	}
	return w, nil
}

// splitFile sets the chunks and the size of e to those of f, and its checksum if there
// are several chunks. size is the expected size. If f grows beyond one chunk
// meanwhile, splitFile returns errChanged, because it did not compute the checksum.
func splitFile(ctx context.Context, c *files.Cutter, f io.Reader, size int64, e *format.Entry) error {
	c.Reset(f)
	whole := sha256.New()
	several := size > files.MaxSingleChunk
	for ctx.Err() == nil {
		piece, err := c.Next()
		if errors.Is(err, io.EOF) {
			if len(e.Chunks) > 1 {
				whole.Sum(e.SHA256[:0])
			}
			return nil
		} else if err != nil {
			return err
		}
		e.Chunks = append(e.Chunks, format.Chunk{Hash: sha256.Sum256(piece), Size: uint32(len(piece))})
		e.Size += int64(len(piece))
		if several {
			whole.Write(piece)
		} else if len(e.Chunks) > 1 {
			return errChanged
		}
	}
	return context.Cause(ctx)
}
