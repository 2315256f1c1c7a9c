package transfer

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"syscall"

	"github.com/stint-dev/stint/internal/files"
	"github.com/stint-dev/stint/internal/files/treewire"
	"github.com/stint-dev/stint/internal/localdir"
)

// survey finds out what dir holds already: which files are as they should be,
// and where chunks lie that others need.
type survey struct {
	*pull
	cache  *cacheReader
	cutter files.Cutter
	others []other // files that may hold chunks, and were not read
}

type other struct {
	path string
	size int64
}

func (p *pull) survey(ctx context.Context) error {
	p.places = map[treewire.Hash]location{}
	s := &survey{pull: p, cache: openCache(p.o.Cache)}
	defer s.cache.close()
	err := fs.WalkDir(localdir.FS(p.root), ".", func(name string, d fs.DirEntry, err error) error {
		if d != nil && name != "." && errors.Is(err, fs.ErrPermission) {
			return fs.SkipDir // it is written anew, or is not ours to look at
		}
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return fmt.Errorf("look through the folder: %w", err)
		}
		if name == "." {
			return nil
		}
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		} else if err != nil {
			return fmt.Errorf("look through the folder: %w", err)
		}
		if info.IsDir() && s.byPath[name] == nil && !s.cache.below(name) {
			return fs.SkipDir // neither the version nor an earlier one has it: it may be as large as a home folder
		}
		return s.visit(ctx, name, info)
	})
	if err != nil {
		return err
	}
	if err := s.parts(ctx); err != nil {
		return err
	}
	if err := s.search(ctx); err != nil {
		return err
	}
	s.account()
	return nil
}

// visit compares what lies in dir with the version.
func (s *survey) visit(ctx context.Context, name string, info fs.FileInfo) error {
	i := s.byPath[name]
	if i == nil && !info.IsDir() && localdir.IsPart(info.Name()) {
		s.remains = append(s.remains, name)
	}
	if i != nil {
		w := entryOf(name, info)
		i.found = true
		i.same = w.Mode == i.Mode && w.Sec == i.Sec && w.Nsec == i.Nsec
	}
	switch {
	case info.Mode().IsRegular():
		return s.file(ctx, name, info, i)
	case i == nil:
	case i.Kind == treewire.Link && info.Mode().Type() == fs.ModeSymlink:
		target, err := s.root.Readlink(name)
		i.keep = err == nil && target == i.Target
	case i.Kind == treewire.Folder && info.IsDir():
		i.keep = true
	}
	return nil
}

func (s *survey) file(ctx context.Context, name string, info fs.FileInfo, i *item) error {
	known := s.cache.of(name, info)
	candidate := i != nil && i.Kind == treewire.File
	worthReading := candidate && (info.Size() == i.Size || info.Size() > files.MaxSingleChunk)
	if known == nil && !worthReading {
		s.others = append(s.others, other{name, info.Size()})
		return nil
	}
	chunks := []treewire.Chunk(nil)
	if known != nil {
		chunks = known.chunks
	} else if chunks = s.read(ctx, name, info.Size()); ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if candidate && info.Size() == i.Size && slices.Equal(chunks, i.Chunks) {
		i.keep, i.stat = true, statOf(info)
	}
	s.index(name, chunks)
	return nil
}

// read cuts a local file; none of one that cannot be read, which is then
// written anew or of no use.
func (s *survey) read(ctx context.Context, name string, size int64) []treewire.Chunk {
	f, err := openRegular(s.root, name)
	if err != nil {
		return nil
	}
	defer f.Close()
	var e treewire.Entry
	if err := cutFile(ctx, &s.cutter, f, size, &e); err != nil {
		return nil
	}
	return e.Chunks
}

func openRegular(root *os.Root, name string) (*os.File, error) {
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(errChanged, err, f.Close())
	}
	return f, nil
}

func (s *survey) index(name string, chunks []treewire.Chunk) {
	offset := int64(0)
	for _, c := range chunks {
		if _, ok := s.places[c.Hash]; !ok {
			s.places[c.Hash] = location{name, offset}
		}
		offset += int64(c.Raw)
	}
}

// partName is the name under which a file is written: the same each time, so
// that a large one that was not completed is gone on with.
func partName(e *treewire.Entry) string {
	return path.Join(path.Dir(e.Path), localdir.PartName(e.Sum))
}

// parts finds chunks in files that an earlier pull has not completed.
func (s *survey) parts(ctx context.Context) error {
	for _, i := range s.items {
		if i.keep || len(i.Chunks) < 2 {
			continue
		}
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		s.part(i)
	}
	return nil
}

func (s *survey) part(i *item) {
	name := partName(i.Entry)
	f, err := openRegular(s.root, name)
	if err != nil {
		return
	}
	defer f.Close()
	offset := int64(0)
	b := make([]byte, treewire.MaxChunk)
	for _, c := range i.Chunks {
		if _, err := f.ReadAt(b[:c.Raw], offset); err == nil && sha256.Sum256(b[:c.Raw]) == c.Hash {
			s.places[c.Hash] = location{name, offset}
		}
		offset += int64(c.Raw)
	}
}

// search looks for missing chunks in further files of dir: those that were
// moved, and large ones that grew from another.
func (s *survey) search(ctx context.Context) error {
	sizes, large := map[int64]bool{}, false
	for _, i := range s.items {
		if i.keep || s.hasAll(i) {
			continue
		}
		sizes[i.Size] = true
		large = large || len(i.Chunks) > 1
	}
	for _, o := range s.others {
		if mayHelp := sizes[o.size] || large && o.size > files.MaxSingleChunk; !mayHelp {
			continue
		}
		chunks := s.read(ctx, o.path, o.size)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		s.index(o.path, chunks)
	}
	return nil
}

func (s *survey) hasAll(i *item) bool {
	for _, c := range i.Chunks {
		if _, ok := s.places[c.Hash]; !ok {
			return false
		}
	}
	return true
}

// account sums up what is to be done.
func (s *survey) account() {
	seen := map[treewire.Hash]bool{}
	for _, i := range s.items {
		if i.keep || i.Kind != treewire.File {
			continue
		}
		s.done.Written.Files++
		s.done.Written.Bytes += i.Size
		for _, c := range i.Chunks {
			if _, ok := s.places[c.Hash]; !ok && !seen[c.Hash] {
				seen[c.Hash] = true
				s.done.Fetched += int64(c.Raw)
			}
		}
	}
}
