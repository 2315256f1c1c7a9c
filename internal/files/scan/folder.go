package scan

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"math"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/files/commit"
	"github.com/stint-dev/stint/internal/files/format"
	"github.com/stint-dev/stint/internal/files/limits"
	"github.com/stint-dev/stint/internal/files/manifest"
	"github.com/stint-dev/stint/internal/files/spool"
)

// DirOptions adjusts CommitDir and CommitOverlay. CommitOverlay ignores
// Confidential and Verify. The zero value includes everything within Scanner.Limits
// except sockets, pipes, and devices.
type DirOptions struct {
	// Ignore reports whether an entry is excluded, a folder with its content. Paths
	// are relative and slash-separated.
	Ignore func(path string, isDir bool) bool
	// MaxBytes replaces Scanner.Limits.TotalBytes, the limit of the total size of the
	// tree's files; 0 keeps that limit. MaxFiles limits the number of files; 0 means
	// no limit other than Scanner.Limits.Entries.
	MaxBytes, MaxFiles int64
	// KeepParents reports whether a folder is only included as the parent of an
	// included entry. Such a folder gets mode 0755 and the Unix epoch as time. nil
	// means never.
	KeepParents func(path string) bool
	// Confidential writes new objects to files.Options.SealedStore.
	Confidential bool
	// Verify reads all stored files back. If a file differs or cannot be read,
	// everything is stored again. A tree equal to the parent is not read back.
	Verify bool
	// RefuseSpecials makes sockets, pipes, and devices an error.
	RefuseSpecials bool
	// OnSkip is called for each socket, pipe, and device that is left out. If the
	// commit is repeated, it is called again.
	OnSkip func(path string, mode fs.FileMode)
	// OnMismatch is called for each entry that differs between the folder and the
	// tree: an entry that is skipped, ignored, or deleted meanwhile, or that has
	// mode bits beyond 0777, a time that the API cannot represent, or an extended
	// attribute that an overlay over the folder would interpret. The path of the top
	// folder is "". Folders for which KeepParents returns true are not compared.
	OnMismatch func(path string)
}

// CommitDir stores the tree in dir, a folder with untrusted content that may still
// change. parent is the digest of the previous version ("" = none); its content is
// not stored again.
//
// Links are kept, even those that lead out of the tree, and never followed. Mode
// bits beyond 0777 and owners are dropped. If permissions to read an entry are
// missing, or the files are too large, the error is a *stint.Error that names the
// entry.
func (b *Scanner) CommitDir(ctx context.Context, org, parent, dir string, o DirOptions) (manifest.Ref, error) {
	ref, err := commit.RetryOnce(func() (manifest.Ref, error) { return b.commitDir(ctx, org, parent, dir, o, false) })
	if errors.Is(err, commit.ErrReadBack) && ctx.Err() == nil {
		return commit.RetryOnce(func() (manifest.Ref, error) { return b.commitDir(ctx, org, "", dir, o, true) })
	}
	return ref, err
}

// commitDir is one attempt of CommitDir. If storeAll is set, it does not reuse chunks
// that the index finds.
func (b *Scanner) commitDir(ctx context.Context, org, parent, dir string, o DirOptions, storeAll bool) (ref manifest.Ref, err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return manifest.Ref{}, fmt.Errorf("opening the folder to store: %w", err)
	}
	c, err := b.Commits.BeginAfter(ctx, org, parent, o.Confidential)
	if err != nil {
		return manifest.Ref{}, errors.Join(err, root.Close())
	}
	if c.Verifies = o.Verify; storeAll {
		c.Dedup.Index = nil
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	in := commit.NewChunker(ctx, c.Dedup, c.Writer, c.Manifest.Add)
	s := newFolderScan(b, in, o)
	err = s.compareFolder("", root)
	if err == nil {
		err = s.folder(root, "", 1)
	}
	if err = in.End(errors.Join(err, root.Close())); err != nil {
		return manifest.Ref{}, errors.Join(err, c.Writer.Withdraw(ctx))
	}
	return c.Finish(ctx)
}

// folderScan walks a folder in path order.
type folderScan struct {
	in       *commit.Chunker
	options  DirOptions
	limits   limits.Limits
	tempDir  string
	compares bool             // OnMismatch is set
	base     *manifest.Finder // of the tree below an upper layer; nil for a whole tree
	entries  int64            // number of entries so far
	files    int64            // number of files so far
	bytes    int64            // size of these files
	waiting  []*format.Entry  // KeepParents folders in which no entry was found yet, outermost first
}

func newFolderScan(b *Scanner, in *commit.Chunker, o DirOptions) *folderScan {
	s := &folderScan{in: in, options: o, limits: b.Limits, tempDir: b.Commits.Packs.TempDir}
	s.setLimits()
	return s
}

func (s *folderScan) setLimits() {
	if s.options.MaxBytes > 0 {
		s.limits.TotalBytes = s.options.MaxBytes
	}
	if s.options.MaxFiles <= 0 {
		s.options.MaxFiles = math.MaxInt64
	}
	if s.options.Ignore == nil {
		s.options.Ignore = func(string, bool) bool { return false }
	}
	if s.options.OnSkip == nil {
		s.options.OnSkip = func(string, fs.FileMode) {}
	}
	s.compares = s.options.OnMismatch != nil
	if !s.compares {
		s.options.OnMismatch = func(string) {}
	}
}

// folder walks root, which has the path dir in the tree. Each folder has an os.Root
// of its own, so a link cannot lead from one folder to another.
func (s *folderScan) folder(root *os.Root, dir string, depth int) error {
	for name, err := range s.names(root) {
		if err != nil {
			return s.readError(dir, err)
		}
		path := name
		if dir != "" {
			path = dir + "/" + name
		}
		if err := s.entry(root, name, path, depth); err != nil {
			return err
		}
	}
	return nil
}

// names returns the names in a folder in ascending order.
func (s *folderScan) names(root *os.Root) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		sorted := spool.NewSorter(s.tempDir)
		defer func() { _ = sorted.Close() }() // only temporary data can be lost
		if err := s.list(root, sorted); err != nil {
			yield("", err)
			return
		}
		for e, err := range sorted.Sorted() {
			if err != nil {
				yield("", err)
				return
			}
			if !yield(e.Path, nil) {
				return
			}
		}
	}
}

// list adds the names in a folder to sorted.
func (s *folderScan) list(root *os.Root, sorted *spool.Sorter) error {
	d, err := root.Open(".")
	if err != nil {
		return err
	}
	defer d.Close()
	for count := s.entries; ; {
		names, err := d.Readdirnames(1024)
		if count += int64(len(names)); count > s.limits.Entries {
			return s.tooManyError()
		}
		for _, name := range names {
			if err := sorted.Add(&format.Entry{Path: name, Kind: format.Folder}); err != nil {
				return err
			}
		}
		if err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
	}
}

func (s *folderScan) tooManyError() error {
	return limits.TooLarge("The tree has more than %d entries.", s.limits.Entries)
}

func (s *folderScan) entry(root *os.Root, name, path string, depth int) error {
	info, err := root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		s.options.OnMismatch(path) // deleted meanwhile
		return nil
	} else if err != nil {
		return s.readError(path, err)
	}
	if s.base != nil && isWhiteout(info) {
		return s.addWhiteout(path)
	}
	if s.options.Ignore(path, info.IsDir()) {
		s.options.OnMismatch(path)
		return s.addWhiteout(path)
	}
	if err := s.limits.CheckPath(path, depth); err != nil {
		return err
	}
	if s.entries++; s.entries > s.limits.Entries {
		return s.tooManyError()
	}
	if info.IsDir() && s.options.KeepParents != nil && s.options.KeepParents(path) {
		return s.enterParent(root, name, path, info, depth)
	}
	if err := s.addWaiting(); err != nil {
		return err
	}
	e := &format.Entry{Path: path, Mode: uint16(info.Mode().Perm())}
	e.SetTime(info.ModTime())
	if e.Sec < format.FirstSecond || e.Sec > format.LastSecond || info.Mode()&(fs.ModeSetuid|fs.ModeSetgid|fs.ModeSticky) != 0 {
		s.options.OnMismatch(path)
	}
	e.Sec = min(max(e.Sec, format.FirstSecond), format.LastSecond)
	switch info.Mode().Type() {
	case 0:
		e.Kind = format.File
		return s.file(root, name, e, info)
	case fs.ModeDir:
		e.Kind = format.Folder
		return s.enter(root, name, e, info, depth)
	case fs.ModeSymlink:
		e.Kind, e.Mode = format.Symlink, 0o777
		if e.Target, err = root.Readlink(name); err != nil {
			return s.openError(path, err)
		}
		return s.in.AddEntry(e)
	}
	if s.options.RefuseSpecials {
		return limits.Invalid("'%s' is a socket, named pipe or device.", limits.Printable(path))
	}
	s.entries--
	s.options.OnMismatch(path)
	s.options.OnSkip(path, info.Mode())
	return s.addWhiteout(path)
}

// addWhiteout records that the tree has no entry at path, even if the base has one.
// Without a base, it does nothing.
func (s *folderScan) addWhiteout(path string) error {
	if s.base == nil {
		return nil
	}
	return s.in.AddEntry(&format.Entry{Path: path, Kind: whiteout})
}

// enterParent walks a folder for which KeepParents returned true.
func (s *folderScan) enterParent(root *os.Root, name, path string, info fs.FileInfo, depth int) error {
	e := &format.Entry{Path: path, Kind: format.Folder, Mode: 0o755}
	s.waiting = append(s.waiting, e)
	err := s.enter(root, name, e, info, depth)
	if n := len(s.waiting); n > 0 && s.waiting[n-1] == e {
		s.waiting = s.waiting[:n-1]
	}
	return err
}

// addWaiting adds the waiting folders, because an entry in them was found.
func (s *folderScan) addWaiting() error {
	for _, e := range s.waiting {
		if err := s.in.AddEntry(e); err != nil {
			return err
		}
	}
	s.waiting = s.waiting[:0]
	return nil
}

func (s *folderScan) enter(root *os.Root, name string, e *format.Entry, info fs.FileInfo, depth int) error {
	inner, err := root.OpenRoot(name)
	if err != nil {
		return s.openError(e.Path, err)
	}
	opened, err := inner.Stat(".")
	switch {
	case err != nil:
		err = s.readError(e.Path, err)
	case !os.SameFile(info, opened):
		err = replacedError(e.Path)
	case !slices.Contains(s.waiting, e):
		err = s.openedFolder(inner, e)
	}
	if err == nil {
		err = s.folder(inner, e.Path, depth+1)
	}
	return errors.Join(err, inner.Close())
}

// compare calls OnMismatch if an entry has attributes of an overlay. It ignores the
// entries of an upper layer, where these attributes belong to the stored overlay.
func (s *folderScan) compare(path string, f *os.File) error {
	if !s.compares || s.base != nil {
		return nil
	}
	found, err := hasOverlayAttributes(f)
	if found {
		s.options.OnMismatch(path)
	}
	return err
}

func (s *folderScan) compareFolder(path string, root *os.Root) error {
	if !s.compares || s.base != nil {
		return nil
	}
	f, err := root.Open(".")
	if err != nil {
		return err
	}
	return errors.Join(s.compare(path, f), f.Close())
}

// openedFolder adds a folder. If the folder is opaque, a whiteout precedes it.
func (s *folderScan) openedFolder(inner *os.Root, e *format.Entry) error {
	if err := s.compareFolder(e.Path, inner); err != nil {
		return s.readError(e.Path, err)
	}
	if s.base != nil {
		f, err := inner.Open(".")
		if err != nil {
			return s.readError(e.Path, err)
		}
		opaque, err := hides(e.Path, f)
		if err = errors.Join(err, f.Close()); err != nil {
			return s.readError(e.Path, err)
		}
		if opaque {
			if err := s.addWhiteout(e.Path); err != nil {
				return err
			}
		}
	}
	return s.in.AddEntry(e)
}

func (s *folderScan) file(root *os.Root, name string, e *format.Entry, info fs.FileInfo) error {
	if s.files++; s.files > s.options.MaxFiles {
		return limits.TooLarge("The tree has more than %d files.", s.options.MaxFiles)
	}
	// The file may have become a pipe: opening must not wait for a writer.
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return s.openError(e.Path, err)
	}
	opened, err := f.Stat()
	switch {
	case err != nil:
		err = s.readError(e.Path, err)
	case !os.SameFile(info, opened):
		err = replacedError(e.Path)
	case opened.Size() > s.left():
		err = s.tooLargeError(e.Path) // before reading, because a sparse file may be huge
	default:
		err = s.openedFile(f, e)
	}
	return errors.Join(err, f.Close())
}

// openedFile adds a file, or a whiteout if the file is a whiteout of an overlay.
func (s *folderScan) openedFile(f *os.File, e *format.Entry) error {
	if err := s.compare(e.Path, f); err != nil {
		return s.readError(e.Path, err)
	}
	if s.base != nil {
		gone, err := hides(e.Path, f)
		if err != nil {
			return s.readError(e.Path, err)
		}
		if gone {
			s.files--
			s.entries--
			return s.addWhiteout(e.Path)
		}
		old, err := s.base.Find(s.in.Line.Ctx, e.Path)
		if err != nil {
			return err
		}
		s.in.ParentChunks = commit.NewParentChunks(old)
	}
	err := s.in.Content(e, &limitedReader{s: s, f: f, path: e.Path, left: s.left()})
	s.bytes += e.Size
	return err
}

func (s *folderScan) left() int64 { return min(s.limits.FileBytes, s.limits.TotalBytes-s.bytes) }

func (s *folderScan) tooLargeError(path string) error {
	return limits.TooLarge("The files have more than %d bytes together, or '%s' alone more than %d.", s.limits.TotalBytes, limits.Printable(path), s.limits.FileBytes)
}

func replacedError(path string) error {
	return limits.Invalid("'%s' was replaced while it was being read.", limits.Printable(path))
}

// openError returns the error of an entry that could not be opened as its former
// kind. A deleted entry is not an error.
func (s *folderScan) openError(path string, err error) error {
	var code syscall.Errno
	if !errors.As(err, &code) { // os.Root's error for a link that leads outside
		return replacedError(path)
	}
	switch code {
	case syscall.ENOENT:
		s.options.OnMismatch(path)
		return nil
	case syscall.ELOOP, syscall.ENOTDIR, syscall.EISDIR, syscall.EINVAL, syscall.ENXIO:
		return replacedError(path)
	}
	return s.readError(path, err)
}

// readError returns the error of an unreadable entry. If permissions are missing, it
// is a *stint.Error, because the owner of the folder can correct this. Other errors
// are internal.
func (s *folderScan) readError(path string, err error) error {
	if _, ok := errors.AsType[*stint.Error](err); ok {
		return err
	}
	if errors.Is(err, fs.ErrPermission) {
		e := stint.InvalidParam("", "'%s' cannot be read: permission denied.", limits.Printable(path))
		e.Cause = err
		return e
	}
	return fmt.Errorf("reading %q: %w", strings.ToValidUTF8(path, "?"), err)
}

// limitedReader reads at most left bytes of a file, which may grow meanwhile. If the
// file is larger, Read returns an error.
type limitedReader struct {
	s    *folderScan
	f    *os.File
	path string
	left int64
}

func (m *limitedReader) Read(b []byte) (int, error) {
	n, err := m.f.Read(b)
	if m.left -= int64(n); m.left < 0 {
		return n, m.s.tooLargeError(m.path)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		err = m.s.readError(m.path, err)
	}
	return n, err
}

// Scanner commits folders and archives. It is safe for concurrent use.
type Scanner struct {
	Commits *commit.Committer
	Limits  limits.Limits
}
