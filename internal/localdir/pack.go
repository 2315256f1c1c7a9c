package localdir

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/klauspost/compress/gzip"
)

// Folder is an open folder with a list of its entries. The caller must call Close.
type Folder struct {
	Files   int64    // number of regular files
	Size    int64    // total size of the regular files in bytes
	Skipped []string // paths of other entries than files, folders, and symbolic links

	root    *os.Root
	entries []Entry
}

// Entry is a file, folder, or symbolic link in a Folder.
type Entry struct {
	Path   string // slash-separated path relative to the folder
	Info   fs.FileInfo
	Target string // target of a symbolic link; otherwise empty
}

// Entries returns the entries in depth-first order; siblings are sorted by name.
func (f *Folder) Entries() []Entry { return f.entries }

// OpenFile opens a file of the folder for reading. It does not block, even if the file
// was replaced by a named pipe.
func (f *Folder) OpenFile(path string) (*os.File, error) {
	return f.root.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
}

// Open opens dir and lists its entries, without entries that ignore files exclude and
// incomplete files of a pull (see IsPart). It returns an error if a symbolic link leads
// out of the folder.
func Open(ctx context.Context, dir string) (*Folder, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open the folder: %w", err)
	}
	f := &Folder{root: root}
	if err := f.list(ctx); err != nil {
		return nil, errors.Join(err, root.Close())
	}
	return f, nil
}

// Close releases the folder.
func (f *Folder) Close() error { return f.root.Close() }

func (f *Folder) list(ctx context.Context) error {
	return Walk(ctx, f.root, ".", func(name string, d fs.DirEntry, ignored bool) error {
		if ignored || !d.IsDir() && IsPart(d.Name()) {
			return nil
		}
		return f.add(name, d)
	})
}

// Walk calls visit for the entry from and for all entries below it, in the order of
// Folder.Entries. It does not call visit for the root ("."). ignored is true if ignore
// files exclude the entry. Walk does not descend into excluded folders. If visit returns
// an error, Walk stops.
func Walk(ctx context.Context, root *os.Root, from string, visit func(path string, d fs.DirEntry, ignored bool) error) error {
	ignore, excluded, err := readIgnoreFiles(root, from)
	if err != nil {
		return err
	}
	return fs.WalkDir(FS(root), from, func(name string, d fs.DirEntry, err error) error {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return fmt.Errorf("list the folder: %w", err)
		}
		if name != "." {
			ignored := excluded || ignore.Ignores(name, d.IsDir())
			if err := visit(name, d, ignored); err != nil {
				return err
			}
			if ignored && d.IsDir() {
				return fs.SkipDir
			}
		}
		if d.IsDir() {
			return ignore.read(root, name)
		}
		return nil
	})
}

// readIgnoreFiles reads the ignore files of the parent folders of name. excluded is true
// if one of the parent folders is excluded.
func readIgnoreFiles(root *os.Root, name string) (ignore Ignore, excluded bool, err error) {
	if name == "." {
		return ignore, false, nil
	}
	err = ignore.read(root, ".")
	for i, c := range name {
		if err == nil && c == '/' {
			excluded = excluded || ignore.Ignores(name[:i], true)
			err = ignore.read(root, name[:i])
		}
	}
	return ignore, excluded, err
}

// read adds the ignore file of the folder dir, if it exists and is a regular file.
func (g *Ignore) read(root *os.Root, dir string) error {
	name := path.Join(dir, IgnoreFile)
	info, err := root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !info.Mode().IsRegular() {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", name, err)
	}
	if info.Size() > maxIgnoreFile {
		return fmt.Errorf("%s has more than %d bytes", name, maxIgnoreFile)
	}
	content, err := root.ReadFile(name)
	if err != nil {
		return fmt.Errorf("read %s: %w", name, err)
	}
	return g.Add(dir, content)
}

func (f *Folder) add(name string, d fs.DirEntry) error {
	info, err := d.Info()
	if err != nil {
		return fmt.Errorf("list the folder: %w", err)
	}
	e := Entry{Path: name, Info: info}
	switch {
	case info.Mode().IsRegular():
		f.Files++
		f.Size += info.Size()
	case info.IsDir():
	case info.Mode()&fs.ModeSymlink != 0:
		if e.Target, err = f.root.Readlink(name); err != nil {
			return fmt.Errorf("read link %s: %w", name, err)
		}
		e.Target = filepath.ToSlash(e.Target)
		if Leaves(name, e.Target) {
			return fmt.Errorf("the link %s points out of the folder, to %s: remove it or name it in %s", name, e.Target, IgnoreFile)
		}
	default:
		f.Skipped = append(f.Skipped, name)
		return nil
	}
	f.entries = append(f.entries, e)
	return nil
}

// Leaves reports whether a symbolic link with this path and target leads out of the
// root. Absolute targets do.
func Leaves(name, target string) bool {
	if path.IsAbs(target) {
		return true
	}
	to := path.Join(path.Dir(name), target)
	return to == ".." || strings.HasPrefix(to, "../")
}

// Pack writes the folder to w as a tar.gz archive. The archive is reproducible: it
// depends only on the paths, kinds, content, link targets, permissions, and
// modification times (in seconds) of the entries. Pack calls progress, which may be
// nil, after each write of file content with the number of uncompressed bytes.
func (f *Folder) Pack(ctx context.Context, w io.Writer, progress func(bytes int)) error {
	zip := gzip.NewWriter(w)
	out := tar.NewWriter(zip)
	buffer := make([]byte, 256<<10)
	for _, e := range f.entries {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := f.write(out, e, buffer, progress); err != nil {
			return fmt.Errorf("pack %s: %w", e.Path, err)
		}
	}
	if err := out.Close(); err != nil {
		return fmt.Errorf("pack: %w", err)
	}
	if err := zip.Close(); err != nil {
		return fmt.Errorf("pack: %w", err)
	}
	return nil
}

func (f *Folder) write(out *tar.Writer, e Entry, buffer []byte, progress func(int)) error {
	header := tar.Header{
		Name: e.Path, Mode: int64(e.Info.Mode().Perm()), ModTime: e.Info.ModTime().Truncate(1e9),
		Format: tar.FormatPAX, Typeflag: tar.TypeReg,
	}
	switch {
	case e.Info.IsDir():
		header.Typeflag, header.Name = tar.TypeDir, e.Path+"/"
	case e.Target != "":
		header.Typeflag, header.Linkname = tar.TypeSymlink, e.Target
	default:
		header.Size = e.Info.Size()
	}
	if err := out.WriteHeader(&header); err != nil {
		return err
	}
	if header.Typeflag != tar.TypeReg {
		return nil
	}
	return f.copy(out, e, buffer, progress)
}

// copy writes exactly as many bytes as the header states, so that a growing file does
// not damage the archive. It returns an error if the file has become shorter.
func (f *Folder) copy(out *tar.Writer, e Entry, buffer []byte, progress func(int)) error {
	in, err := f.OpenFile(e.Path)
	if err != nil {
		return err
	}
	defer in.Close()
	if progress == nil {
		progress = func(int) {}
	}
	n, err := io.CopyBuffer(progressWriter{out, progress}, io.LimitReader(in, e.Info.Size()), buffer)
	if err != nil {
		return err
	}
	if n < e.Info.Size() {
		return errors.New("the file became shorter while it was read; try again when nothing writes to it")
	}
	return nil
}

// progressWriter calls progress with the number of bytes of each write. It hides the
// other methods of w, so that io.CopyBuffer uses its buffer.
type progressWriter struct {
	w        io.Writer
	progress func(int)
}

func (p progressWriter) Write(b []byte) (int, error) {
	n, err := p.w.Write(b)
	p.progress(n)
	return n, err
}

// PackBytes returns a tar.gz archive with the files of a file system, without folders.
// All files have the mode 0644.
func PackBytes(files fs.FS) ([]byte, error) {
	var b bytes.Buffer
	zip := gzip.NewWriter(&b)
	out := tar.NewWriter(zip)
	err := fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		header := tar.Header{Name: name, Mode: 0o644, Size: int64(len(content)), Format: tar.FormatPAX, Typeflag: tar.TypeReg}
		if err := out.WriteHeader(&header); err != nil {
			return err
		}
		_, err = out.Write(content)
		return err
	})
	if err = errors.Join(err, out.Close(), zip.Close()); err != nil {
		return nil, fmt.Errorf("pack: %w", err)
	}
	return b.Bytes(), nil
}
