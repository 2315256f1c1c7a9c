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
	"github.com/stint-dev/stint/internal/files/format"
	"github.com/stint-dev/stint/internal/files/treewire"
	"github.com/stint-dev/stint/internal/localdir"
)

// comparison compares dir with the version: it finds unchanged files, and local
// copies of the chunks of other files.
type comparison struct {
	*pull
	cache  *cacheReader
	cutter files.Cutter
	unread []unreadFile // files with unknown chunks
}

type unreadFile struct {
	path string
	size int64
}

func (p *pull) compare(ctx context.Context) error {
	p.local = map[treewire.Hash]location{}
	c := &comparison{pull: p, cache: openCache(p.o.Cache)}
	defer c.cache.close()
	err := fs.WalkDir(localdir.FS(p.root), ".", func(name string, d fs.DirEntry, err error) error {
		if d != nil && name != "." && errors.Is(err, fs.ErrPermission) {
			return fs.SkipDir // an unreadable folder: its files count as missing
		}
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return fmt.Errorf("read the folder: %w", err)
		}
		if name == "." {
			return nil
		}
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		} else if err != nil {
			return fmt.Errorf("read the folder: %w", err)
		}
		if info.IsDir() && c.byPath[name] == nil && !c.cache.hasFolder(name) {
			return fs.SkipDir // neither the version nor the cache contains it, and it can be as large as a home folder
		}
		return c.visit(ctx, name, info)
	})
	if err != nil {
		return err
	}
	if err := c.findParts(ctx); err != nil {
		return err
	}
	if err := c.search(ctx); err != nil {
		return err
	}
	c.sumUp()
	return nil
}

// visit compares an entry of dir with the version.
func (c *comparison) visit(ctx context.Context, name string, info fs.FileInfo) error {
	i := c.byPath[name]
	if i == nil && !info.IsDir() && localdir.IsPart(info.Name()) {
		c.parts = append(c.parts, name)
	}
	if i != nil {
		w := entryOf(name, info)
		i.exists = true
		i.sameMeta = w.Mode == i.Mode && w.Sec == i.Sec && w.Nsec == i.Nsec
	}
	switch {
	case info.Mode().IsRegular():
		return c.file(ctx, name, info, i)
	case i == nil:
	case i.Kind == format.Symlink && info.Mode().Type() == fs.ModeSymlink:
		target, err := c.root.Readlink(name)
		i.unchanged = err == nil && target == i.Target
	case i.Kind == format.Folder && info.IsDir():
		i.unchanged = true
	}
	return nil
}

func (c *comparison) file(ctx context.Context, name string, info fs.FileInfo, i *item) error {
	known := c.cache.findUnchanged(name, info)
	candidate := i != nil && i.Kind == format.File
	// A file of a different size can share chunks only if it has several.
	worthReading := candidate && (info.Size() == i.Size || info.Size() > files.MaxSingleChunk)
	if known == nil && !worthReading {
		c.unread = append(c.unread, unreadFile{name, info.Size()})
		return nil
	}
	chunks := []format.Chunk(nil)
	if known != nil {
		chunks = known.chunks
	} else if chunks = c.read(ctx, name, info.Size()); ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if candidate && info.Size() == i.Size && slices.Equal(chunks, i.Chunks) {
		i.unchanged, i.stat = true, statOf(info)
	}
	c.index(name, chunks)
	return nil
}

// read returns the chunks of a local file, or nil if it cannot be read.
func (c *comparison) read(ctx context.Context, name string, size int64) []format.Chunk {
	f, err := openRegular(c.root, name)
	if err != nil {
		return nil
	}
	defer f.Close()
	var e format.Entry
	if err := splitFile(ctx, &c.cutter, f, size, &e); err != nil {
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

func (c *comparison) index(name string, chunks []format.Chunk) {
	offset := int64(0)
	for _, chunk := range chunks {
		if _, ok := c.local[chunk.Hash]; !ok {
			c.local[chunk.Hash] = location{name, offset}
		}
		offset += int64(chunk.Size)
	}
}

// partName returns the temporary name of a file. It depends only on the folder
// and the content, so that a later pull finds and continues an incomplete file.
func partName(e *format.Entry) string {
	return path.Join(path.Dir(e.Path), localdir.PartName(e.SHA256))
}

// findParts finds chunks in temporary files of an earlier pull that was interrupted.
func (c *comparison) findParts(ctx context.Context) error {
	for _, i := range c.items {
		if i.unchanged || len(i.Chunks) < 2 {
			continue
		}
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		c.readPart(i)
	}
	return nil
}

func (c *comparison) readPart(i *item) {
	name := partName(i.Entry)
	f, err := openRegular(c.root, name)
	if err != nil {
		return
	}
	defer f.Close()
	offset := int64(0)
	b := make([]byte, treewire.MaxChunk)
	for _, chunk := range i.Chunks {
		if _, err := f.ReadAt(b[:chunk.Size], offset); err == nil && sha256.Sum256(b[:chunk.Size]) == chunk.Hash {
			c.local[chunk.Hash] = location{name, offset}
		}
		offset += int64(chunk.Size)
	}
}

// search looks for missing chunks in unread files: in files of the same size, which
// may have been moved, and in large files.
func (c *comparison) search(ctx context.Context) error {
	sizes, large := map[int64]bool{}, false
	for _, i := range c.items {
		if i.unchanged || c.hasAll(i) {
			continue
		}
		sizes[i.Size] = true
		large = large || len(i.Chunks) > 1
	}
	for _, o := range c.unread {
		if mayHelp := sizes[o.size] || large && o.size > files.MaxSingleChunk; !mayHelp {
			continue
		}
		chunks := c.read(ctx, o.path, o.size)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		c.index(o.path, chunks)
	}
	return nil
}

func (c *comparison) hasAll(i *item) bool {
	return !slices.ContainsFunc(i.Chunks, func(chunk format.Chunk) bool {
		_, ok := c.local[chunk.Hash]
		return !ok
	})
}

// sumUp adds the files to write and the bytes to fetch to the result.
func (p *pull) sumUp() {
	seen := map[treewire.Hash]bool{}
	for _, i := range p.items {
		if i.unchanged || i.Kind != format.File {
			continue
		}
		p.done.Written.Files++
		p.done.Written.Bytes += i.Size
		for _, chunk := range i.Chunks {
			if _, ok := p.local[chunk.Hash]; !ok && !seen[chunk.Hash] {
				seen[chunk.Hash] = true
				p.done.Fetched += int64(chunk.Size)
			}
		}
	}
}
