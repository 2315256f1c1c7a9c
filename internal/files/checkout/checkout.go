package checkout

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"runtime"
	"strings"
	"sync"

	"github.com/stint-dev/stint/internal/files/format"
	"github.com/stint-dev/stint/internal/files/manifest"
	"github.com/stint-dev/stint/internal/files/ordered"
	"github.com/stint-dev/stint/internal/files/pack"
)

// Write writes the tree m into dir, which must be an existing, empty folder, with
// modes, modification times, links, and empty folders. All content is verified
// against its hashes. Links are not followed, so nothing outside dir changes. After
// an error, dir may hold a part of the tree.
func Write(ctx context.Context, m *manifest.Manifest, dir string) error {
	root, err := openFolder(dir)
	if err != nil {
		return fmt.Errorf("opening the folder to check out into: %w", err)
	}
	w := &treeWriter{folders: []*openedFolder{root}}
	err = w.checkEmpty()
	if err == nil {
		err = writeTree(ctx, m, w)
	}
	return errors.Join(err, w.close())
}

// checkoutJob is a part of a checkout: a chunk of a file, or an entry without
// content.
type checkoutJob struct {
	entry   *format.Entry
	chunk   *format.Chunk // nil if the entry has no content
	last    bool          // the last job of the entry
	content []byte        // of the chunk, expanded from segment
	segment []byte
}

// idleJobs holds finished jobs. Their buffers are reused.
var idleJobs = sync.Pool{New: func() any { return &checkoutJob{} }}

// writeTree reads segments in one goroutine, expands and verifies them in several,
// and writes in one, because more writers slow down file systems.
func writeTree(ctx context.Context, m *manifest.Manifest, w *treeWriter) error {
	workers := min(runtime.GOMAXPROCS(0), 4)
	expand := func() func(*checkoutJob) error {
		var x format.Expander
		return func(j *checkoutJob) error { return x.Expand(j.content, j.segment, j.chunk) }
	}
	take := func(j *checkoutJob) error {
		defer idleJobs.Put(j)
		return w.write(j)
	}
	s := &storedTree{m: m, fetch: pack.Reader{Store: m.Store.Packs, Org: m.Org}}
	s.line = ordered.NewPool(ctx, workers, 2*workers+2, expand, take)
	err := s.send()
	if err != nil {
		err = s.line.Abort(err)
	} else {
		err = s.line.Finish()
	}
	if err == nil {
		err = w.leaveTo("")
	}
	return errors.Join(err, s.fetch.Close())
}

// storedTree reads the segments of a tree.
type storedTree struct {
	m     *manifest.Manifest
	line  *ordered.Pool[*checkoutJob]
	fetch pack.Reader
}

func (s *storedTree) send() error {
	for e, err := range s.m.Entries(s.line.Ctx) {
		if err != nil {
			return err
		}
		if len(e.Chunks) == 0 {
			if err := s.chunk(e, nil, true); err != nil {
				return err
			}
		}
		for i := range e.Chunks {
			if err := s.chunk(e, &e.Chunks[i], i == len(e.Chunks)-1); err != nil {
				return fmt.Errorf("reading %q: %w", e.Path, err)
			}
		}
	}
	return nil
}

func (s *storedTree) chunk(e *format.Entry, c *format.Chunk, last bool) error {
	j := idleJobs.Get().(*checkoutJob)
	*j = checkoutJob{entry: e, chunk: c, last: last, content: j.content[:0], segment: j.segment[:0]}
	if c != nil {
		j.content, j.segment = pack.Resize(j.content, int(c.Size)), pack.Resize(j.segment, int(c.Place.Length))
		if err := s.fetch.Read(s.line.Ctx, c.Place.Pack, int64(c.Place.Offset), j.segment); err != nil {
			return err
		}
	}
	return s.line.Send(j, c != nil)
}

// treeWriter writes entries in path order below a folder. A folder gets its mode
// and times when its content is complete, because writing needs permissions and
// changes times.
type treeWriter struct {
	folders []*openedFolder // from the top to the parent of the next entry
	file    *os.File        // the file being written
}

// openedFolder is a folder that is being filled.
type openedFolder struct {
	entry *format.Entry // nil for the top folder
	root  *os.Root
	dir   *os.File // the same folder, for calls that need a descriptor
}

func openFolder(dir string) (*openedFolder, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	return newFolder(nil, root)
}

func newFolder(e *format.Entry, root *os.Root) (*openedFolder, error) {
	f, err := root.Open(".")
	if err != nil {
		return nil, errors.Join(err, root.Close())
	}
	return &openedFolder{entry: e, root: root, dir: f}, nil
}

func (f *openedFolder) close() error { return errors.Join(f.dir.Close(), f.root.Close()) }

func (w *treeWriter) checkEmpty() error {
	names, err := w.folders[0].dir.Readdirnames(1)
	if len(names) > 0 {
		return fmt.Errorf("checking out into %s: it is not empty", w.folders[0].root.Name())
	}
	if err != nil && !pack.IsEOF(err) {
		return fmt.Errorf("reading the folder to check out into: %w", err)
	}
	return nil
}

func (w *treeWriter) write(j *checkoutJob) error {
	if err := w.writePart(j); err != nil {
		return fmt.Errorf("writing %q: %w", j.entry.Path, err)
	}
	return nil
}

func (w *treeWriter) writePart(j *checkoutJob) error {
	if w.file == nil {
		if err := w.create(j.entry); err != nil {
			return err
		}
	}
	if j.entry.Kind != format.File {
		return nil
	}
	if _, err := w.file.Write(j.content); err != nil {
		return err
	}
	if !j.last {
		return nil
	}
	f := w.file
	w.file = nil
	err := f.Chmod(fs.FileMode(j.entry.Mode))
	if err == nil {
		err = setTimes(w.top().dir, path.Base(j.entry.Path), j.entry)
	}
	return errors.Join(err, f.Close())
}

func (w *treeWriter) top() *openedFolder { return w.folders[len(w.folders)-1] }

// create creates the file, folder, or link of e, which must not exist.
func (w *treeWriter) create(e *format.Entry) error {
	dir, name := path.Split(e.Path)
	dir = strings.TrimSuffix(dir, "/")
	if err := w.leaveTo(dir); err != nil {
		return err
	}
	if top := w.top().entry; top == nil && dir != "" || top != nil && top.Path != dir {
		return format.ErrDamaged // the parent folder does not precede the entry
	}
	root := w.top().root
	switch e.Kind {
	case format.Symlink:
		if err := root.Symlink(e.Target, name); err != nil {
			return err
		}
		return setTimes(w.top().dir, name, e)
	case format.Folder:
		return w.enter(e, name)
	}
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	w.file = f
	return err
}

func (w *treeWriter) enter(e *format.Entry, name string) error {
	if err := w.top().root.Mkdir(name, 0o700); err != nil {
		return err
	}
	root, err := w.top().root.OpenRoot(name)
	if err != nil {
		return err
	}
	f, err := newFolder(e, root)
	if err != nil {
		return err
	}
	w.folders = append(w.folders, f)
	return nil
}

// leaveTo completes and closes the open folders that are neither dir nor above dir.
func (w *treeWriter) leaveTo(dir string) error {
	for len(w.folders) > 1 {
		f := w.top()
		if f.entry.Path == dir || format.IsUnder(dir, f.entry.Path) {
			return nil
		}
		w.folders = w.folders[:len(w.folders)-1]
		err := f.dir.Chmod(fs.FileMode(f.entry.Mode))
		if err == nil {
			err = setTimes(w.top().dir, path.Base(f.entry.Path), f.entry)
		}
		if err = errors.Join(err, f.close()); err != nil {
			return fmt.Errorf("completing the folder %q: %w", f.entry.Path, err)
		}
	}
	return nil
}

// close closes open files without completing them.
func (w *treeWriter) close() error {
	var errs []error
	if w.file != nil {
		errs = append(errs, w.file.Close())
	}
	for _, f := range w.folders {
		errs = append(errs, f.close())
	}
	return errors.Join(errs...)
}
