package image

import (
	"archive/tar"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"
	"time"
)

const (
	maxPath    = 4095 // maximum length of a path in bytes, as in Linux
	maxLinks   = 40   // maximum number of symbolic links in one path, as in Linux
	block      = 4096 // unit of the charged size of an entry, in bytes
	keptPlaces = 4096 // maximum number of paths in unpacker.realPaths
	batch      = 1024 // names that are read from a folder at once
)

// budget is the number of bytes and entries that the remaining entries of an image may
// use.
type budget struct{ bytes, entries int64 }

// take charges the budget with an entry of size bytes, rounded up to whole blocks and
// at least one. It returns errTooMany or errTooLarge if the budget is exceeded.
func (m *budget) take(size int64) error {
	if m.entries--; m.entries < 0 {
		return errTooMany
	}
	if size < 0 || size > m.bytes {
		return errTooLarge
	}
	if m.bytes -= max(block, (size+block-1)/block*block); m.bytes < 0 {
		return errTooLarge
	}
	return nil
}

// unpacker unpacks layers into a root folder. All paths are clean and relative to the
// root folder. The path of the root folder is "". A real path contains no symbolic links.
type unpacker struct {
	top        *os.Root
	budget     *budget
	realPaths  map[string]string   // cache: real path of each folder, by the path in a layer
	openDir    *dirHandle          // folder of the last entry, or nil
	layerPaths map[uint64]struct{} // hashes of the real paths in the current layer
	seed       maphash.Seed        // of the hashes
	buffer     []byte
}

// dirHandle is a folder that is kept open while consecutive entries are added to it.
// closeParent restores the folder's modification time.
type dirHandle struct {
	path    string
	root    *os.Root
	modTime time.Time
}

func newUnpacker(dir string, m *budget) (*unpacker, error) {
	top, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	return &unpacker{top: top, budget: m, realPaths: map[string]string{}, seed: maphash.MakeSeed(), buffer: make([]byte, 256<<10)}, nil
}

func (t *unpacker) close() error { return errors.Join(t.closeParent(), t.top.Close()) }

// beginLayer clears the set of paths in the current layer. Whiteouts use the set,
// because they remove only entries of earlier layers.
func (t *unpacker) beginLayer() { t.layerPaths = map[uint64]struct{}{} }

// openParent opens the folder with the path asked, which a layer contains, and creates
// missing folders. The handle is valid until the next call of openParent or
// closeParent.
func (t *unpacker) openParent(asked string) (*dirHandle, error) {
	real, err := t.resolve(asked, true)
	if err != nil {
		return nil, err
	}
	if t.openDir != nil && t.openDir.path == real {
		return t.openDir, nil
	}
	if err := t.closeParent(); err != nil {
		return nil, err
	}
	root, err := t.top.OpenRoot(dotted(real))
	if err != nil {
		return nil, err
	}
	info, err := root.Stat(".")
	if err != nil {
		return nil, errors.Join(err, root.Close())
	}
	t.openDir = &dirHandle{path: real, root: root, modTime: info.ModTime()}
	return t.openDir, nil
}

func (t *unpacker) closeParent() error {
	f := t.openDir
	if f == nil {
		return nil
	}
	t.openDir = nil
	return errors.Join(f.root.Chtimes(".", time.Time{}, f.modTime), f.root.Close())
}

// resolve returns the real path of a folder. If a folder is missing, it is created if
// create is true; otherwise resolve returns fs.ErrNotExist.
func (t *unpacker) resolve(asked string, create bool) (string, error) {
	if asked == "" {
		return "", nil
	}
	if real, ok := t.realPaths[asked]; ok {
		return real, nil
	}
	dir, base := split(asked)
	start, err := t.resolve(dir, create)
	if err != nil {
		return "", err
	}
	real, err := t.walk(start, base, create)
	if err != nil {
		return "", err
	}
	if len(t.realPaths) >= keptPlaces {
		clear(t.realPaths)
	}
	t.realPaths[asked] = real
	return real, nil
}

// walk resolves the path rest, which is relative to the real path at, and returns its
// real path. It resolves symbolic links as in a sandbox with this root folder.
func (t *unpacker) walk(at, rest string, create bool) (string, error) {
	links := 0
	for queue := []string{rest}; len(queue) > 0; {
		part := queue[0]
		queue = queue[1:]
		if part == "" || part == "." {
			continue
		}
		if part == ".." {
			at, _ = split(at)
			continue
		}
		next := path.Join(at, part)
		target, err := t.step(next, create)
		if err != nil {
			return "", err
		}
		if target == "" {
			at = next
			continue
		}
		if links++; links > maxLinks {
			return "", newImageError("the path %s leads through more than %d symbolic links", quote(next), maxLinks)
		}
		if strings.HasPrefix(target, "/") {
			at = ""
		}
		queue = append(strings.Split(target, "/"), queue...)
	}
	return at, nil
}

// step examines the last element of p. If it is a folder, target is empty. If it is a
// symbolic link, target is the target of the link. If it is missing and create is true,
// step creates a folder. Any other type of file is an error.
func (t *unpacker) step(p string, create bool) (target string, err error) {
	if len(p) > maxPath {
		return "", newImageError("it holds a path longer than %d bytes", maxPath)
	}
	info, err := t.top.Lstat(p)
	switch {
	case errors.Is(err, fs.ErrNotExist) && create:
		return "", t.makeFolder(p)
	case err != nil:
		return "", err
	case info.IsDir():
		return "", nil
	case info.Mode().Type() == fs.ModeSymlink:
		return t.top.Readlink(p)
	}
	return "", newImageError("it holds entries below %s, which is a file", quote(p))
}

func (t *unpacker) makeFolder(p string) error {
	if err := t.budget.take(0); err != nil {
		return err
	}
	t.mark(p)
	return errors.Join(t.top.Mkdir(p, 0o755), t.top.Chmod(p, 0o755))
}

// mark records that the current layer contains p and its parent folders.
func (t *unpacker) mark(p string) {
	for ; p != ""; p, _ = split(p) {
		key := maphash.String(t.seed, p)
		if _, ok := t.layerPaths[key]; ok {
			return
		}
		t.layerPaths[key] = struct{}{}
	}
}

func (t *unpacker) isFromLayer(p string) bool {
	_, ok := t.layerPaths[maphash.String(t.seed, p)]
	return ok
}

// replace calls create, which creates an entry named base in f. If an entry with that
// name exists, replace removes it recursively and calls create again.
func (t *unpacker) replace(f *dirHandle, base string, create func() error) error {
	err := create()
	if errors.Is(err, fs.ErrExist) {
		if err = t.remove(f, base); err == nil {
			err = create()
		}
	}
	if err == nil {
		t.mark(path.Join(f.path, base))
	}
	return err
}

// remove deletes the entry named base in f recursively, if it exists.
func (t *unpacker) remove(f *dirHandle, base string) error {
	info, err := f.root.Lstat(base)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.IsDir() || info.Mode().Type() == fs.ModeSymlink {
		clear(t.realPaths)
	}
	return f.root.RemoveAll(base)
}

func (t *unpacker) file(f *dirHandle, base string, h *tar.Header, content io.Reader) error {
	return t.replace(f, base, func() error {
		file, err := f.root.OpenFile(base, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return err
		}
		_, err = io.CopyBuffer(struct{ io.Writer }{file}, struct{ io.Reader }{content}, t.buffer)
		if err == nil {
			err = file.Chmod(fs.FileMode(h.Mode).Perm())
		}
		return errors.Join(err, file.Close(), f.root.Chtimes(base, time.Time{}, h.ModTime))
	})
}

func (t *unpacker) folder(f *dirHandle, base string, h *tar.Header) error {
	info, err := f.root.Lstat(base)
	if err == nil && info.IsDir() {
		t.mark(path.Join(f.path, base))
	} else if err := t.replace(f, base, func() error { return f.root.Mkdir(base, 0o700) }); err != nil {
		return err
	}
	if err := f.root.Chmod(base, folderMode(h)); err != nil {
		return err
	}
	return f.root.Chtimes(base, time.Time{}, h.ModTime)
}

func folderMode(h *tar.Header) fs.FileMode {
	return h.FileInfo().Mode()&(fs.ModePerm|fs.ModeSticky) | 0o700
}

// rootFolder sets the mode of the root folder to that in h, with permission for all
// users to enter and read it.
func (t *unpacker) rootFolder(h *tar.Header) error {
	return t.top.Chmod(".", folderMode(h)|0o755)
}

func (t *unpacker) symlink(f *dirHandle, base, target string) error {
	if target == "" || len(target) > maxPath {
		return newImageError("its symbolic link %s has a target of %d bytes", quote(path.Join(f.path, base)), len(target))
	}
	return t.replace(f, base, func() error { return f.root.Symlink(target, base) })
}

// hardLink creates the entry base in f as a hard link to another file of the root. If
// the last element of target is a symbolic link, the new entry is a hard link to that
// symbolic link.
func (t *unpacker) hardLink(f *dirHandle, base, target string) error {
	to := path.Join(f.path, base)
	name, err := cleanName(target)
	if err != nil {
		return err
	}
	dir, file := split(name)
	real, err := t.resolve(dir, false)
	if err != nil {
		return linkError(to, err)
	}
	from := path.Join(real, file)
	info, err := t.top.Lstat(dotted(from))
	switch {
	case err != nil:
		return linkError(to, err)
	case info.IsDir():
		return newImageError("its hard link %s leads to a folder", quote(to))
	case from == to:
		return nil
	}
	return t.replace(f, base, func() error { return t.top.Link(from, to) })
}

func linkError(p string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return &imageError{why: fmt.Sprintf("its hard link %s leads to a file that it does not hold", quote(p)), cause: err}
	}
	return err
}

// whiteout removes the entry at the real path p, except for parts that the current
// layer contains.
func (t *unpacker) whiteout(p string) error {
	if !t.isFromLayer(p) {
		clear(t.realPaths)
		return t.top.RemoveAll(p)
	}
	info, err := t.top.Lstat(p)
	if err != nil || !info.IsDir() {
		return err
	}
	return t.whiteoutContents(p)
}

func (t *unpacker) whiteoutContents(p string) error {
	d, err := t.top.Open(dotted(p))
	if err != nil {
		return err
	}
	defer d.Close()
	for {
		names, err := d.Readdirnames(batch)
		for _, name := range names {
			if err := t.whiteout(path.Join(p, name)); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func split(p string) (dir, base string) {
	if i := strings.LastIndexByte(p, '/'); i >= 0 {
		return p[:i], p[i+1:]
	}
	return "", p
}

func dotted(p string) string {
	if p == "" {
		return "."
	}
	return p
}

func quote(p string) string { return "'" + clip(p) + "'" }

// entryErrnos are errors of system calls that are caused by the content of an entry.
var entryErrnos = []error{
	syscall.ENAMETOOLONG, syscall.EINVAL, syscall.EMLINK, syscall.ENOTDIR, syscall.EISDIR,
	syscall.EEXIST, syscall.EPERM, syscall.EILSEQ, syscall.ELOOP, syscall.ENOENT, syscall.ENOTEMPTY,
}

// entryError returns an *imageError if the content of the entry caused err. It returns
// other errors, which the server caused, unchanged.
func entryError(name string, err error) error {
	if _, ok := errors.AsType[*imageError](err); ok {
		return err
	}
	for _, refusal := range entryErrnos {
		if errors.Is(err, refusal) {
			return &imageError{why: fmt.Sprintf("its entry %s cannot be created on this system", quote(name)), cause: err}
		}
	}
	return err
}
