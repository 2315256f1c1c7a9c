//go:build linux && (amd64 || arm64)

package overlay

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/stint-dev/stint/internal/sandbox/fixed"
)

// Work is the path of an upper folder's work folder: beside it, as both must be
// in one mount, and no agent may reach it.
func Work(upper string) string {
	return filepath.Join(filepath.Dir(upper), "."+filepath.Base(upper)+".work")
}

// Ready makes the work folder of an upper folder, on a file system that can mark
// what hides.
func Ready(upper string) error {
	if err := wantEmpty(upper); err != nil {
		return err
	}
	if err := Drop(upper); err != nil { // of a server that was killed
		return err
	}
	work := Work(upper)
	if err := os.Mkdir(work, 0o700); err != nil {
		return fmt.Errorf("making work folder: %w", err)
	}
	err := unix.Setxattr(work, fixed.OpaqueAttr, []byte("y"), 0)
	if err != nil {
		return errors.Join(fmt.Errorf("%w: their file system keeps no marks: %w", ErrRefused, err), Drop(upper))
	}
	if err := unix.Removexattr(work, fixed.OpaqueAttr); err != nil {
		return errors.Join(fmt.Errorf("clearing work folder: %w", err), Drop(upper))
	}
	return nil
}

// Whiteouts tells whether this process may make whiteouts in a folder, as the
// kernel does in its name.
func Whiteouts(dir string) error {
	mark := filepath.Join(dir, ".whiteout")
	err := unix.Mknod(mark, unix.S_IFCHR, 0)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%w: no mark can be made of what is gone: %w", ErrRefused, err)
	}
	return os.Remove(mark)
}

func wantEmpty(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("opening upper folder: %w", err)
	}
	defer d.Close()
	if names, err := d.Readdirnames(1); !errors.Is(err, io.EOF) || len(names) > 0 {
		return errors.Join(fmt.Errorf("the upper folder %s is not empty", dir), err)
	}
	return nil
}

// Drop removes the work folder of an upper folder, whose overlay nobody uses any
// more. The kernel leaves folders in it that none may enter.
func Drop(upper string) error {
	work := Work(upper)
	err := filepath.WalkDir(work, func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.IsDir() { // not read yet
			return os.Chmod(path, 0o700) //nolint:gosec // about to be removed
		}
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing work folder: %w", err)
	}
	if err := os.RemoveAll(work); err != nil {
		return fmt.Errorf("removing work folder: %w", err)
	}
	return nil
}
