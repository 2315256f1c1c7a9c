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

// Remove removes a file, or a folder with all entries that an untrusted agent may
// have created: paths longer than the system's limit, more nested folders than the
// limit of open files, and inaccessible folders. It does not follow symbolic links.
// After an error, it continues with other entries; it returns the first error. It
// returns nil if path does not exist.
func Remove(path string) error {
	r := remover{top: -1}
	if err := r.remove(unix.AT_FDCWD, path, 0); err != nil {
		return fmt.Errorf("removing %s: %w", path, err)
	}
	return nil
}

// maxOpenDirs is the maximum depth of open folders below the top folder. A deeper
// folder is moved to the top folder before it is read.
const maxOpenDirs = 64

type remover struct {
	top   int // descriptor of the top folder, the path of Remove
	moved int // number of folders that were moved to the top folder
}

// remove removes the entry name of the open folder parent. If the entry is a folder
// at a depth above maxOpenDirs, remove only moves it to the top folder.
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

// emptyAndRemove removes a folder's entries and the folder. A read of a folder can
// miss entries while others are removed, and moveUp adds entries to the top folder, so
// emptyAndRemove reads the folder repeatedly until it is removed or no entry can be.
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

// removeEntries reads a folder once and reports whether it removed or moved any entry.
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
			return removed, first // if entries could not be read, removing the folder fails
		}
	}
}

// moveUp moves a folder to the top folder under a new name. emptyAndRemove finds it
// there.
func (r *remover) moveUp(parent int, name string) error {
	for {
		r.moved++
		err := unix.Renameat(parent, name, r.top, ".lifted-"+strconv.Itoa(r.moved))
		if errors.Is(err, unix.EACCES) { // moving a folder requires write permission for it
			if err = makeAccessible(parent, name); err == nil {
				err = unix.Renameat(parent, name, r.top, ".lifted-"+strconv.Itoa(r.moved))
			}
		}
		switch {
		case err == nil:
			return nil
		case errors.Is(err, unix.EEXIST), errors.Is(err, unix.ENOTEMPTY), errors.Is(err, unix.ENOTDIR):
			// The agent has used the same name: try the next.
		default:
			return pathError("move", name, err)
		}
	}
}

// pathError returns an error with the last element of a path, because the whole path
// may be too long.
func pathError(op, name string, err error) error {
	return &fs.PathError{Op: op, Path: name, Err: err}
}

// openDir opens a folder, and makes it accessible for its owner if necessary.
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
		_ = unix.Fchmod(fd, 0o700) // after an error, removing an entry may fail
	}
	return os.NewFile(uintptr(fd), name), nil
}

// makeAccessible gives the owner all permissions for a folder. It never follows a
// symbolic link, even if the folder is replaced by one concurrently.
func makeAccessible(parent int, name string) error {
	fd, err := unix.Openat(parent, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Chmod("/proc/self/fd/"+strconv.Itoa(fd), 0o700)
}
