//go:build linux && (amd64 || arm64)

package overlay

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// ErrUnsupported is wrapped by errors which mean that the kernel or the file system
// cannot support an overlay of the given folders.
var ErrUnsupported = errors.New("the kernel cannot mount an overlay of these folders")

// Folders are descriptors of an overlay's folders.
type Folders struct {
	Lower []int // topmost first
	// Upper receives changes. Work is an empty folder for the kernel. Both must
	// be in the same mount. Both are -1 for a read-only overlay, which needs at
	// least two Lower folders.
	Upper, Work int
}

// options are the mount options of all overlays. With redirect_dir, metacopy, and index,
// the kernel would store data in the upper folder that cannot be stored in a snapshot.
var options = []struct{ key, value string }{
	{"userxattr", ""}, {"redirect_dir", "nofollow"}, {"metacopy", "off"}, {"index", "off"}, {"xino", "off"},
}

// Mount returns the overlay as a detached mount, without setuid and devices.
// The caller needs the privilege to mount and its own mount namespace. In this
// namespace, Mount may temporarily mount the overlay on the folder with the path at. The
// caller moves the returned mount and closes its descriptor.
func (f Folders) Mount(at string) (int, error) {
	if fd, err := f.mountByDescriptor(); err == nil {
		return fd, nil
	}
	return f.mountAndDetach(at)
}

// mountAndDetach mounts the overlay at a folder, clones the mount, and unmounts
// it.
func (f Folders) mountAndDetach(at string) (int, error) {
	if err := f.MountAt(at); err != nil {
		return -1, err
	}
	fd, err := unix.OpenTree(unix.AT_FDCWD, at, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err = errors.Join(err, unix.Unmount(at, unix.MNT_DETACH)); err != nil {
		return -1, fmt.Errorf("%w: %w", ErrUnsupported, err)
	}
	return fd, nil
}

// mountByDescriptor returns the overlay as a detached mount. It needs Linux 6.13, and
// Linux 6.15 if the folders are in trees that are not mounted.
func (f Folders) mountByDescriptor() (int, error) {
	return f.newFilesystem(func(fs int) error {
		for _, l := range f.Lower {
			if err := unix.FsconfigSetFd(fs, "lowerdir+", l); err != nil {
				return fmt.Errorf("adding a layer: %w", err)
			}
		}
		if f.Upper < 0 {
			return nil
		}
		if err := unix.FsconfigSetFd(fs, "upperdir", f.Upper); err != nil {
			return fmt.Errorf("adding the upper folder: %w", err)
		}
		if err := unix.FsconfigSetFd(fs, "workdir", f.Work); err != nil {
			return fmt.Errorf("adding the work folder: %w", err)
		}
		return nil
	})
}

// MountAt mounts the overlay on the folder at. The overlay's folders must be mounted
// in the caller's mount namespace. Unlike Mount, it works even if no further mount
// namespaces may be created, which the kernel requires for detached mounts.
func (f Folders) MountAt(at string) error {
	names := make([]string, len(f.Lower))
	for i, l := range f.Lower {
		names[i] = fdPath(l)
	}
	data := []string{"lowerdir=" + strings.Join(names, ":")}
	flags := uintptr(unix.MS_NOSUID | unix.MS_NODEV)
	if f.Upper < 0 {
		flags |= unix.MS_RDONLY
	} else {
		data = append(data, "upperdir="+fdPath(f.Upper), "workdir="+fdPath(f.Work), "volatile")
	}
	for _, o := range options {
		data = append(data, strings.TrimSuffix(o.key+"="+o.value, "="))
	}
	if err := unix.Mount("overlay", at, "overlay", flags, strings.Join(data, ",")); err != nil {
		return fmt.Errorf("%w: %w", ErrUnsupported, err)
	}
	var st unix.Statfs_t
	if err := errors.Join(unix.Statfs(at, &st), f.checkWritable(&st)); err != nil {
		return errors.Join(err, unix.Unmount(at, unix.MNT_DETACH))
	}
	return nil
}

// checkWritable returns an error if the overlay has an upper folder but the kernel
// has made it read-only, because it cannot use the work folder.
func (f Folders) checkWritable(st *unix.Statfs_t) error {
	if f.Upper >= 0 && st.Flags&unix.ST_RDONLY != 0 {
		return fmt.Errorf("%w: the overlay is read-only", ErrUnsupported)
	}
	return nil
}

func fdPath(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }

// newFilesystem returns an overlay as a detached mount. add sets the overlay's folders.
func (f Folders) newFilesystem(add func(fs int) error) (int, error) {
	fs, err := unix.Fsopen("overlay", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, fmt.Errorf("%w: %w", ErrUnsupported, err)
	}
	defer unix.Close(fs)
	if err := errors.Join(add(fs), f.setOptions(fs)); err != nil {
		return -1, fmt.Errorf("%w: %w", ErrUnsupported, err)
	}
	if err := unix.FsconfigCreate(fs); err != nil {
		return -1, fmt.Errorf("%w: %w", ErrUnsupported, err)
	}
	attributes := unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV
	if f.Upper < 0 {
		attributes |= unix.MOUNT_ATTR_RDONLY
	}
	fd, err := unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, attributes)
	if err != nil {
		return -1, fmt.Errorf("%w: %w", ErrUnsupported, err)
	}
	var st unix.Statfs_t
	if err := errors.Join(unix.Fstatfs(fd, &st), f.checkWritable(&st)); err != nil {
		return -1, errors.Join(err, unix.Close(fd))
	}
	return fd, nil
}

func (f Folders) setOptions(fs int) error {
	for _, o := range options {
		var err error
		if o.value == "" {
			err = unix.FsconfigSetFlag(fs, o.key)
		} else {
			err = unix.FsconfigSetString(fs, o.key, o.value)
		}
		if err != nil {
			return fmt.Errorf("setting %s: %w", o.key, err)
		}
	}
	if f.Upper < 0 {
		return nil
	}
	if err := unix.FsconfigSetFlag(fs, "volatile"); err != nil {
		return fmt.Errorf("setting volatile: %w", err)
	}
	return nil
}
