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

	"github.com/stint-dev/stint/internal/sandbox/layout"
)

// WorkDir returns the path of an upper folder's work folder. The work folder is next to
// the upper folder, because both must be in one mount. Agents cannot access it.
func WorkDir(upper string) string {
	return filepath.Join(filepath.Dir(upper), "."+filepath.Base(upper)+".work")
}

// MakeWorkDir creates the work folder of an upper folder. The upper folder must be empty.
// If the file system does not support user extended attributes, the error wraps
// ErrUnsupported.
func MakeWorkDir(upper string) error {
	if err := checkEmpty(upper); err != nil {
		return err
	}
	if err := RemoveWorkDir(upper); err != nil { // left by a server that was killed
		return err
	}
	work := WorkDir(upper)
	if err := os.Mkdir(work, 0o700); err != nil {
		return fmt.Errorf("creating work folder: %w", err)
	}
	err := unix.Setxattr(work, layout.OpaqueAttr, []byte("y"), 0)
	if err != nil {
		return errors.Join(fmt.Errorf("%w: their file system does not support user extended attributes: %w", ErrUnsupported, err), RemoveWorkDir(upper))
	}
	if err := unix.Removexattr(work, layout.OpaqueAttr); err != nil {
		return errors.Join(fmt.Errorf("clearing work folder: %w", err), RemoveWorkDir(upper))
	}
	return nil
}

// CheckWhiteouts returns an error if this process cannot create whiteouts in dir:
// character devices 0:0, which mark removed files. The kernel creates whiteouts
// with the privileges of the process that mounted the overlay.
func CheckWhiteouts(dir string) error {
	mark := filepath.Join(dir, ".whiteout")
	err := unix.Mknod(mark, unix.S_IFCHR, 0)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%w: whiteouts cannot be created: %w", ErrUnsupported, err)
	}
	return os.Remove(mark)
}

func checkEmpty(dir string) error {
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

// RemoveWorkDir removes the work folder of an upper folder, if it exists. The overlay
// must have been unmounted. RemoveWorkDir first makes all folders in it accessible,
// because the kernel creates folders without permissions there.
func RemoveWorkDir(upper string) error {
	work := WorkDir(upper)
	err := filepath.WalkDir(work, func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.IsDir() { // WalkDir calls this function before it reads the folder
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
