//go:build linux

package sandbox

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// Remove removes a file, or a folder that an agent may have filled: with names
// that together are longer than any path may be, nested deeper than there are
// descriptors, closed to their owner. It follows no link, and goes on where
// something cannot be removed; the error is the first. What is missing is none.
func Remove(path string) error {
	r := remover{top: -1}
	if err := r.remove(unix.AT_FDCWD, path, 0); err != nil {
		return fmt.Errorf("removing %s: %w", path, err)
	}
	return nil
}

// deepest is how many folders are open at once. What lies deeper is moved up
// before it is looked into.
const maxOpenDirs = 64

type remover struct {
	top   int // descriptor of the uppermost folder
	moved int // numbers the folders that were moved up into it
}

// remove removes one entry of an open folder.
func (r *remover) remove(parent int, name string, depth int) error {
	err := unix.Unlinkat(parent, name, 0)
	if err == nil || errors.Is(err, unix.ENOENT) {
		return nil
	}
	if !errors.Is(err, unix.EISDIR) {
		return pathError("unlink", name, err)
	}
	if depth > maxOpenDirs {
		return r.moveUp(parent, name)
	}
	dir, err := openDir(parent, name)
	if err != nil {
		return pathError("open", name, err)
	}
	defer dir.Close()
	if depth == 0 {
		r.top = int(dir.Fd())
	}
	return r.emptyAndRemove(dir, parent, name, depth)
}

// folder empties a folder and removes it. Removing may hide entries from who
// reads on, and the uppermost gets new ones, so it looks again until there is
// nothing left that can be removed.
func (r *remover) emptyAndRemove(dir *os.File, parent int, name string, depth int) error {
	for {
		removed, err := r.removeEntries(dir, depth+1)
		rmdir := unix.Unlinkat(parent, name, unix.AT_REMOVEDIR)
		if rmdir == nil || errors.Is(rmdir, unix.ENOENT) {
			return nil
		}
		if !errors.Is(rmdir, unix.ENOTEMPTY) || !removed {
			return cmp.Or(err, pathError("rmdir", name, rmdir))
		}
		if _, err := dir.Seek(0, 0); err != nil {
			return pathError("read", name, err)
		}
	}
}

// contents goes through a folder once, and tells whether anything was removed.
func (r *remover) removeEntries(dir *os.File, depth int) (removed bool, first error) {
	for {
		names, end := dir.Readdirnames(256)
		for _, name := range names {
			err := r.remove(int(dir.Fd()), name, depth)
			removed = removed || err == nil
			if first == nil {
				first = err
			}
		}
		if end != nil {
			return removed, first // what was not read, rmdir tells of
		}
	}
}

// lift moves a folder up into the uppermost, which is looked through again.
func (r *remover) moveUp(parent int, name string) error {
	for {
		r.moved++
		err := unix.Renameat(parent, name, r.top, ".lifted-"+strconv.Itoa(r.moved))
		if errors.Is(err, unix.EACCES) { // a folder that moves is written to
			if err = makeAccessible(parent, name); err == nil {
				err = unix.Renameat(parent, name, r.top, ".lifted-"+strconv.Itoa(r.moved))
			}
		}
		switch {
		case err == nil:
			return nil
		case errors.Is(err, unix.EEXIST), errors.Is(err, unix.ENOTEMPTY), errors.Is(err, unix.ENOTDIR):
			// The agent has had the same name.
		default:
			return pathError("move", name, err)
		}
	}
}

// fault names an entry by its last name only: its path may be of any length.
func pathError(op, name string, err error) error {
	return &fs.PathError{Op: op, Path: name, Err: err}
}

// openFolder opens a folder for reading, and lets its owner in who was shut out.
func openDir(parent int, name string) (*os.File, error) {
	const flags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	fd, err := unix.Openat(parent, name, flags, 0)
	if errors.Is(err, unix.EACCES) {
		if err := makeAccessible(parent, name); err != nil {
			return nil, err
		}
		fd, err = unix.Openat(parent, name, flags, 0)
	}
	if err != nil {
		return nil, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err == nil && st.Mode&0o700 != 0o700 {
		_ = unix.Fchmod(fd, 0o700) // if it matters, removing tells
	}
	return os.NewFile(uintptr(fd), name), nil
}

// unlock gives the owner all rights to a folder, whatever takes its name
// meanwhile.
func makeAccessible(parent int, name string) error {
	fd, err := unix.Openat(parent, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Chmod("/proc/self/fd/"+strconv.Itoa(fd), 0o700)
}
