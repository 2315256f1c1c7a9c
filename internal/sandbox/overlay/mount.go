//go:build linux && (amd64 || arm64)

package overlay

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// ErrUnsupported says that the kernel does not lay these folders over each other.
var ErrUnsupported = errors.New("the kernel does not lay these folders over each other")

// Folders are the parts of an overlay, by descriptors.
type Folders struct {
	Lower []int // topmost first
	// Upper takes what is changed, and WorkDir is empty; both lie in one mount.
	// -1: nothing can be changed, and Lower has two at least.
	Upper, Work int
}

// options are common to all overlays. Without index and inode numbers of its own
// the kernel keeps nothing in the upper folder that a snapshot would not know.
var options = []struct{ key, value string }{
	{"userxattr", ""}, {"redirect_dir", "nofollow"}, {"metacopy", "off"}, {"index", "off"}, {"xino", "off"},
}

// Tree gives the overlay as a detached mount, without setuid and devices. The
// caller has the right to mount, and a mount namespace of its own, in which the
// overlay may lie on the folder at for a moment. The descriptor is the caller's
// to move somewhere and to close.
func (f Folders) Mount(at string) (int, error) {
	if fd, err := f.mountByDescriptor(); err == nil {
		return fd, nil
	}
	return f.mountAndDetach(at)
}

// detached mounts the overlay, and clones and takes away the mount.
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

// byDescriptor needs Linux 6.13, for folders that are mounted nowhere 6.15.
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

// MountAt mounts the overlay on a folder. All folders must be mounted in the
// caller's namespace. It works on every kernel, and where no namespaces may be
// made, which detached mounts take one of.
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

// judge refuses an overlay that the kernel has made read-only because it cannot
// work in the work folder.
func (f Folders) checkWritable(st *unix.Statfs_t) error {
	if f.Upper >= 0 && st.Flags&unix.ST_RDONLY != 0 {
		return fmt.Errorf("%w: for reading only", ErrUnsupported)
	}
	return nil
}

func fdPath(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }

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
