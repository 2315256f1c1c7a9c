package transfer

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io/fs"
	"os"
	"path"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/stint-dev/stint/internal/files/format"
	"github.com/stint-dev/stint/internal/files/treewire"
)

// writeAll writes the version to dir. Several goroutines fetch chunks in advance. A
// single goroutine writes files, because concurrent writers are slower.
func (p *pull) writeAll(ctx context.Context) error {
	p.o.Progress.Expect(p.done.Written.Bytes)
	batches := p.batches()
	group, inner := errgroup.WithContext(ctx)
	w := &writer{pull: p, ctx: inner, ahead: make(chan *batch, maxFetches)}
	group.Go(func() error {
		defer close(w.ahead)
		return p.fetchAhead(inner, batches, w.ahead)
	})
	group.Go(w.all)
	if err := group.Wait(); err != nil {
		return err
	}
	if p.o.Delete {
		if err := p.deleteExtra(ctx); err != nil {
			return err
		}
	}
	p.removeParts()
	if err := w.completeFolders(); err != nil {
		return err
	}
	p.saveCache()
	return nil
}

// fetchAhead fetches batches and sends them to ahead in order. At most 2 *
// maxFetches batches are in memory.
func (p *pull) fetchAhead(ctx context.Context, batches []*batch, ahead chan<- *batch) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(maxFetches)
	for _, b := range batches {
		group.Go(func() error {
			defer close(b.ready)
			b.err = p.fetch(ctx, b)
			return b.err
		})
		select {
		case ahead <- b:
		case <-ctx.Done():
			if err := group.Wait(); err != nil {
				return err
			}
			return context.Cause(ctx)
		}
	}
	return group.Wait()
}

// writer writes entries to dir.
type writer struct {
	*pull
	ctx   context.Context
	ahead chan *batch // in the order of use; the contents of a batch may not be ready
	at    int         // index of the current item
	batch *batch      // the current batch
	used  int         // number of its chunks that were used
	in    openFolder
	buf   []byte
}

// openFolder is the folder that contains the entry which was written last.
type openFolder struct {
	path string
	root *os.Root
	dir  *os.File // the same folder, for calls that need a descriptor
}

func (w *writer) all() error {
	defer w.leave()
	for n, i := range w.items {
		if err := w.ctx.Err(); err != nil {
			return context.Cause(w.ctx)
		}
		w.at = n
		if err := w.item(i); err != nil {
			return fmt.Errorf("write %s: %w", i.Path, err)
		}
	}
	return nil
}

func (w *writer) item(i *item) error {
	if i.Kind != format.Folder && i.unchanged && i.sameMeta {
		return nil
	}
	name, err := w.enter(i.Path)
	if err != nil {
		return err
	}
	switch {
	case i.Kind == format.Folder:
		return w.folder(i, name)
	case i.unchanged:
	case i.Kind == format.Symlink:
		err = w.link(i, name)
	default:
		return w.file(i, name)
	}
	if err == nil {
		err = w.setMeta(i, name)
	}
	return err
}

// enter opens the folder of an entry and returns the entry's name in it.
func (w *writer) enter(at string) (string, error) {
	dir, name := path.Split(at)
	dir = path.Clean(dir)
	if w.in.root != nil && w.in.path == dir {
		return name, nil
	}
	w.leave()
	root, err := w.root.OpenRoot(dir)
	if err != nil {
		return "", err
	}
	f, err := root.Open(".")
	if err != nil {
		return "", errors.Join(err, root.Close())
	}
	w.in = openFolder{dir, root, f}
	return name, nil
}

func (w *writer) leave() {
	if w.in.root != nil {
		w.in.dir.Close()
		w.in.root.Close()
		w.in = openFolder{}
	}
}

// folder creates a folder, or gives its owner full access to an existing folder,
// until completeFolders sets its mode.
func (w *writer) folder(i *item, name string) error {
	if !i.unchanged {
		if err := w.clear(name); err != nil {
			return err
		}
		return w.in.root.Mkdir(name, 0o700)
	}
	info, err := w.in.root.Lstat(name)
	if err == nil && info.Mode().Perm()&0o700 != 0o700 {
		err = w.in.root.Chmod(name, 0o700)
	}
	return err
}

// clear removes an entry if it exists. It removes a folder with content only if the
// option Delete is set and the folder contains no ignored entries.
func (w *writer) clear(name string) error {
	info, err := w.in.root.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.IsDir() && w.o.Delete:
		if err := w.checkNoIgnored(w.ctx, path.Join(w.in.path, name)); err != nil {
			return err
		}
		return w.in.root.RemoveAll(name)
	}
	return w.in.root.Remove(name)
}

// clearFolder removes an existing folder, because renaming a file or link to its
// name would fail.
func (w *writer) clearFolder(name string) error {
	if info, err := w.in.root.Lstat(name); err != nil || !info.IsDir() {
		return nil //nolint:nilerr // the rename reports any problem
	}
	return w.clear(name)
}

func (w *writer) link(i *item, name string) error {
	part := path.Base(partName(i.Entry))
	if err := w.clear(part); err != nil {
		return err
	}
	if err := w.in.root.Symlink(i.Target, part); err != nil {
		return err
	}
	if err := w.clearFolder(name); err != nil {
		return err
	}
	return w.in.root.Rename(part, name)
}

// setMeta sets the mode and time of an entry; of a symbolic link, only the time.
func (w *writer) setMeta(i *item, name string) error {
	if i.Kind != format.Symlink {
		if err := w.in.root.Chmod(name, fs.FileMode(i.Mode)); err != nil {
			return err
		}
	}
	if err := setTimes(w.in.dir, name, i.Time()); err != nil {
		return err
	}
	return w.recordStat(i, name)
}

// recordStat records the stat of a file for the cache.
func (w *writer) recordStat(i *item, name string) error {
	if i.Kind != format.File || w.o.Cache == "" {
		return nil
	}
	info, err := w.in.root.Lstat(name)
	if err != nil {
		return err
	}
	i.stat = statOf(info)
	return nil
}

// file writes a file under its temporary name and renames it.
func (w *writer) file(i *item, name string) error {
	part := path.Base(partName(i.Entry))
	f, err := w.openPart(i, part)
	if err != nil {
		return err
	}
	err = w.fill(i, f)
	if err == nil {
		err = f.Chmod(fs.FileMode(i.Mode))
	}
	if err = errors.Join(err, f.Close()); err != nil {
		if len(i.Chunks) < 2 { // the next pull continues a larger file
			err = errors.Join(err, w.in.root.Remove(part))
		}
		return err
	}
	if err := setTimes(w.in.dir, part, i.Time()); err != nil {
		return err
	}
	if i.exists {
		if err := w.clearFolder(name); err != nil {
			return err
		}
	}
	if err := w.in.root.Rename(part, name); err != nil {
		return err
	}
	w.renamed(i)
	return w.recordStat(i, name)
}

// openPart opens the temporary file. If an interrupted pull left one for a file of
// several chunks, openPart reuses it.
func (w *writer) openPart(i *item, part string) (*os.File, error) {
	f, err := w.in.root.OpenFile(part, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if !errors.Is(err, fs.ErrExist) {
		return f, err
	}
	if len(i.Chunks) > 1 {
		if info, err := w.in.root.Lstat(part); err == nil && info.Mode().IsRegular() {
			return w.reopenPart(i, part)
		}
	}
	if err := w.clear(part); err != nil {
		return nil, err
	}
	return w.in.root.OpenFile(part, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
}

// reopenPart opens the temporary file of an interrupted pull. The file may have its
// final mode already, which may not permit writing.
func (w *writer) reopenPart(i *item, part string) (*os.File, error) {
	if err := w.in.root.Chmod(part, 0o600); err != nil {
		return nil, err
	}
	f, err := w.in.root.OpenFile(part, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	if err := f.Truncate(i.Size); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// fill writes the chunks of i and verifies the checksum of the file.
func (w *writer) fill(i *item, f *os.File) error {
	var whole hash.Hash
	if len(i.Chunks) > 1 {
		whole = sha256.New()
	}
	part, offset := partName(i.Entry), int64(0)
	for n, c := range i.Chunks {
		if err := w.ctx.Err(); err != nil {
			return context.Cause(w.ctx)
		}
		chunk, at, err := w.chunk(i, n, f)
		if err != nil {
			return err
		}
		if at != (location{part, offset}) {
			if _, err := f.WriteAt(chunk, offset); err != nil {
				return err
			}
		}
		if _, ok := w.local[c.Hash]; !ok {
			w.local[c.Hash] = location{part, offset}
		}
		if whole != nil {
			whole.Write(chunk)
		}
		offset += int64(c.Size)
		w.o.Progress.Done(int64(c.Size))
	}
	if whole != nil && treewire.Hash(whole.Sum(nil)) != i.SHA256 {
		return errors.New("its chunks do not match the checksum of the file: the version is damaged")
	}
	return nil
}

// renamed updates the locations of chunks after the rename of a temporary file.
func (w *writer) renamed(i *item) {
	part := partName(i.Entry)
	for _, c := range i.Chunks {
		if at := w.local[c.Hash]; at.path == part {
			w.local[c.Hash] = location{i.Path, at.offset}
		}
	}
}

// chunk returns the content of the n-th chunk of i, and its location if it is in a
// local file. The content is valid until the next call.
func (w *writer) chunk(i *item, n int, part *os.File) ([]byte, location, error) {
	c := i.Chunks[n]
	at, ok := w.local[c.Hash]
	if !ok {
		chunk, err := w.fetched(c)
		return chunk, location{}, err
	}
	if chunk := w.readLocal(i, c, at, part); chunk != nil {
		return chunk, at, nil
	}
	// The file with the chunk was replaced, has changed, or cannot be read.
	delete(w.local, c.Hash)
	b := &batch{chunks: []neededChunk{{c, w.at, n}}}
	if err := w.fetch(w.ctx, b); err != nil {
		return nil, location{}, err
	}
	w.done.Fetched += int64(c.Size)
	w.done.Wire += b.wire
	return b.contents[0], location{}, nil
}

// readLocal reads a chunk from a file below dir. It returns nil if the file has
// changed or cannot be read.
func (w *writer) readLocal(i *item, c format.Chunk, at location, part *os.File) []byte {
	if w.buf == nil {
		w.buf = make([]byte, treewire.MaxChunk)
	}
	chunk := w.buf[:c.Size]
	f := part
	if at.path != partName(i.Entry) {
		var err error
		if f, err = openRegular(w.root, at.path); err != nil {
			return nil
		}
		defer f.Close()
	}
	if _, err := f.ReadAt(chunk, at.offset); err != nil || sha256.Sum256(chunk) != c.Hash {
		return nil
	}
	return chunk
}

// fetched returns the next fetched chunk.
func (w *writer) fetched(c format.Chunk) ([]byte, error) {
	for w.batch == nil || w.used == len(w.batch.contents) {
		b, ok := <-w.ahead
		if !ok {
			return nil, errors.Join(context.Cause(w.ctx), errors.New("a chunk was not fetched"))
		}
		<-b.ready
		if b.err != nil {
			return nil, b.err
		}
		w.batch, w.used = b, 0
		w.done.Wire += b.wire
	}
	chunk := w.batch.contents[w.used]
	if w.batch.chunks[w.used].Hash != c.Hash {
		return nil, errors.New("chunks were fetched in the wrong order")
	}
	w.batch.contents[w.used] = nil
	w.used++
	return chunk, nil
}

// completeFolders sets the modes and times of folders after their content was
// written.
func (w *writer) completeFolders() error {
	defer w.leave()
	for _, i := range slices.Backward(w.items) {
		if i.Kind != format.Folder {
			continue
		}
		name, err := w.enter(i.Path)
		if err == nil {
			err = w.setMeta(i, name)
		}
		if err != nil {
			return fmt.Errorf("write %s: %w", i.Path, err)
		}
	}
	return nil
}
