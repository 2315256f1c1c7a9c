// Package privatefile reads and writes small files that only their owner can access.
package privatefile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Read returns at most the first limit bytes of a file. It returns an error if the
// file is not regular, is a symbolic link, or is accessible to other users.
func Read(path string, limit int64) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is not a regular file", path)
	case info.Mode().Perm()&0o077 != 0:
		return nil, fmt.Errorf("%s is accessible to other users (mode %04o); run: chmod 600 %s", path, info.Mode().Perm(), path)
	}
	return io.ReadAll(io.LimitReader(f, limit))
}

// Create durably creates a file with mode 0600. It returns fs.ErrExist if the file
// exists. Of several concurrent calls, one succeeds.
func Create(path string, content []byte) error { return write(path, content, os.Link) }

// Replace atomically and durably creates or replaces a file. Its mode becomes 0600.
func Replace(path string, content []byte) error { return write(path, content, os.Rename) }

// TemporaryPattern returns a pattern for filepath.Glob that matches the temporary files of
// Create and Replace. A crash can leave them behind.
func TemporaryPattern(path string) string {
	return filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+"-*")
}

// write writes content to a temporary file and calls publish, which gives the file
// the name path.
func write(path string, content []byte, publish func(temporary, path string) error) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(TemporaryPattern(path))) // mode 0600
	if err != nil {
		return err
	}
	defer func() {
		if removeErr := os.Remove(f.Name()); !errors.Is(removeErr, fs.ErrNotExist) { // os.Rename has removed the temporary name
			err = errors.Join(err, removeErr)
		}
	}()
	_, err = f.Write(content)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := publish(f.Name(), path); err != nil {
		return err
	}
	d, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
