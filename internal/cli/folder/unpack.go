package folder

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"
)

// Unpacked tells what Unpack wrote.
type Unpacked struct {
	Files int64
	Size  int64
}

// Unpack writes a tar.gz stream into dir, which is made when it is missing.
// Files of the same name are replaced, others stay. Nothing is written outside
// of dir: entries and links that would lead there are errors, and links that
// stand in dir already are not followed out of it. Set-user-ID bits and owners
// are not taken over.
func Unpack(ctx context.Context, archive io.Reader, dir string) (Unpacked, error) {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return Unpacked{}, fmt.Errorf("make the folder: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return Unpacked{}, fmt.Errorf("open the folder: %w", err)
	}
	defer func() { _ = root.Close() }() // every file in it was closed on its own
	zip, err := gzip.NewReader(archive)
	if err != nil {
		return Unpacked{}, fmt.Errorf("read the archive: %w", err)
	}
	u := unpacker{root: root, in: tar.NewReader(zip), buffer: make([]byte, 256<<10)}
	if err := u.all(ctx); err != nil {
		return u.done, err
	}
	// What follows the last entry carries the checksum of the whole.
	if _, err := io.Copy(io.Discard, zip); err != nil {
		return u.done, fmt.Errorf("read the archive: %w", err)
	}
	return u.done, u.finishDirs()
}

type unpacker struct {
	root   *os.Root
	in     *tar.Reader
	buffer []byte
	dirs   []*tar.Header // modes and times are set when nothing more is written
	done   Unpacked
}

func (u *unpacker) all(ctx context.Context) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		header, err := u.in.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the archive: %w", err)
		}
		if err := u.entry(header); err != nil {
			return fmt.Errorf("unpack '%s': %w", header.Name, err)
		}
	}
}

var errOutside = errors.New("it would lie outside of the folder")

func (u *unpacker) entry(h *tar.Header) error {
	name := path.Clean(strings.TrimSuffix(h.Name, "/"))
	if name == "." {
		return nil
	}
	if !fs.ValidPath(name) || strings.ContainsRune(name, 0) {
		return errOutside
	}
	if err := u.root.MkdirAll(path.Dir(name), 0o777); err != nil {
		return err
	}
	switch h.Typeflag {
	case tar.TypeDir:
		return u.dir(h, name)
	case tar.TypeReg:
		return u.file(h, name)
	case tar.TypeSymlink:
		if leaves(name, h.Linkname) {
			return errOutside
		}
		if err := u.clear(name); err != nil {
			return err
		}
		return u.root.Symlink(h.Linkname, name)
	}
	return fmt.Errorf("entries of type %q are not supported", h.Typeflag)
}

func (u *unpacker) dir(h *tar.Header, name string) error {
	info, err := u.root.Lstat(name)
	if err == nil && !info.IsDir() {
		err = u.root.Remove(name)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := u.root.MkdirAll(name, 0o777); err != nil {
		return err
	}
	if err := u.root.Chmod(name, 0o700); err != nil { // until everything in it is written
		return err
	}
	kept := *h
	kept.Name = name
	u.dirs = append(u.dirs, &kept)
	return nil
}

func (u *unpacker) file(h *tar.Header, name string) error {
	if err := u.clear(name); err != nil {
		return err
	}
	// Writable for us while it is written, whatever its mode will be.
	out, err := u.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	n, err := io.CopyBuffer(struct{ io.Writer }{out}, u.in, u.buffer)
	if err = errors.Join(err, out.Chmod(fs.FileMode(h.Mode).Perm()), out.Close()); err != nil {
		return err
	}
	u.done.Files++
	u.done.Size += n
	return u.touch(name, h.ModTime)
}

// clear makes room for an entry.
func (u *unpacker) clear(name string) error {
	err := u.root.Remove(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func (u *unpacker) touch(name string, at time.Time) error {
	if at.IsZero() || at.Unix() == 0 {
		return nil
	}
	return u.root.Chtimes(name, at, at)
}

func (u *unpacker) finishDirs() error {
	for _, h := range slices.Backward(u.dirs) {
		if err := u.root.Chmod(h.Name, fs.FileMode(h.Mode).Perm()); err != nil {
			return fmt.Errorf("unpack '%s': %w", h.Name, err)
		}
		if err := u.touch(h.Name, h.ModTime); err != nil {
			return fmt.Errorf("unpack '%s': %w", h.Name, err)
		}
	}
	return nil
}
