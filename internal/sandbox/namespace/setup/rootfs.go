//go:build linux && (amd64 || arm64)

package setup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/stint-dev/stint/internal/sandbox/agentinit"
	"github.com/stint-dev/stint/internal/sandbox/idmap"
	"github.com/stint-dev/stint/internal/sandbox/layout"
)

// Temporary mount points of the image and of the host's root, as paths relative to
// the new root. Both are unmounted before the command starts.
const (
	imageDir = ".image"
	hostDir  = ".host"
)

// buildRoot creates the sandbox's root and changes to it. It runs in init's
// mount namespace. The host's root stays mounted if init itself must bind the
// folders that are attached later.
func buildRoot(p *Plan) error {
	// If the host's root stays mounted, a file system that is unmounted on the
	// host must also be unmounted here.
	propagation := uintptr(unix.MS_PRIVATE)
	if !p.UserRange {
		propagation = unix.MS_SLAVE
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|propagation, ""); err != nil {
		return fmt.Errorf("making mounts private: %w", err)
	}
	trees, err := openMounts(append([]Mount{p.Image, p.Trust}, p.Mounts...)) // before a mount hides a source
	if err != nil {
		return err
	}
	defer closeAll(trees)
	if err := enterNewRoot(); err != nil {
		return err
	}
	root, err := unix.Open(".", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("opening new root: %w", err)
	}
	defer unix.Close(root)
	for _, step := range []func() error{
		func() error { return mountSystem(p, trees[0]) },
		func() error { return writeEtc(p.Etc) },
		func() error { return makeDev(p.ShmMax) },
		func() error { return makeTmp(p) },
		mountProc,
		func() error { return makeKernelDirs(p) },
		func() error { return mountTrust(root, p.Trust, trees[1]) },
		func() error { return placeMounts(root, p.Mounts, trees[2:]) },
		func() error { return readOnly("dev") },
		func() error { return pivotRoot(p.UserRange) },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// openMounts returns a detached tree for each mount: the tree that the server
// created, or a new bind mount or overlay. The tree is -1 for an alias and for a mount
// without a source.
func openMounts(mounts []Mount) ([]int, error) {
	trees := make([]int, len(mounts))
	for i, m := range mounts {
		trees[i] = -1
		if m.FD != 0 {
			trees[i] = m.FD
			continue
		}
		if m.Source == "" && len(m.Layers) == 0 || m.AliasOf != "" {
			continue
		}
		fd, err := openMount(m)
		if err != nil {
			return nil, fmt.Errorf("mounting %s: %w", m.Target, err)
		}
		trees[i] = fd
	}
	return trees, nil
}

func openMount(m Mount) (int, error) {
	if len(m.Layers) > 0 {
		return overlayTree(m)
	}
	return idmap.CloneTree(m.Source, m.Writable, -1)
}

func closeAll(fds []int) {
	for _, fd := range fds {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
}

// enterNewRoot mounts an empty file system and changes to it. Relative paths
// now refer to the new root, absolute paths to the host's.
func enterNewRoot() error {
	var errs []error
	for _, at := range []string{"/tmp", "/mnt", "/var"} {
		err := unix.Mount("stint", at, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "size=64m,mode=755")
		if err == nil {
			return os.Chdir(at)
		}
		errs = append(errs, err)
	}
	return fmt.Errorf("mounting new root: %w", errors.Join(errs...))
}

// mountSystem binds the plan's entries, which are parts of the host's system or of
// the image. To bind parts of the image, it mounts the image temporarily. image is
// the image's tree, or -1.
func mountSystem(p *Plan, image int) error {
	if image < 0 {
		return bindSystem(p.Entries)
	}
	if err := os.Mkdir(imageDir, 0o700); err != nil {
		return fmt.Errorf("mounting the image: %w", err)
	}
	if err := unix.MoveMount(image, "", unix.AT_FDCWD, imageDir, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return fmt.Errorf("mounting the image: %w", err)
	}
	if err := bindSystem(p.Entries); err != nil {
		return err
	}
	if err := unix.Unmount(imageDir, unix.MNT_DETACH); err != nil {
		return fmt.Errorf("hiding the image's folder: %w", err)
	}
	return os.Remove(imageDir)
}

func bindSystem(entries []layout.Entry) error {
	for _, e := range entries {
		inside := "." + e.Path
		if err := os.MkdirAll(path.Dir(inside), 0o755); err != nil {
			return fmt.Errorf("creating %s: %w", e.Path, err)
		}
		if e.Link != "" {
			if err := os.Symlink(e.Link, inside); err != nil {
				return fmt.Errorf("linking %s: %w", e.Path, err)
			}
			continue
		}
		if err := bindEntry(e, inside); err != nil {
			return fmt.Errorf("mounting %s: %w", e.Path, err)
		}
	}
	return nil
}

func bindEntry(e layout.Entry, inside string) error {
	fd, err := systemTree(e)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // the entry was removed after the server had listed it
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if e.File {
		err = os.WriteFile(inside, nil, 0o644)
	} else {
		err = os.Mkdir(inside, 0o755)
	}
	if err != nil {
		return err
	}
	return unix.MoveMount(fd, "", unix.AT_FDCWD, inside, unix.MOVE_MOUNT_F_EMPTY_PATH)
}

// systemTree returns a detached clone of a part of the host's system or of the image.
// The clone of a part of the image inherits its mount attributes. Symbolic links in
// an image are not followed; the server has checked that the source is not a link.
func systemTree(e layout.Entry) (int, error) {
	if e.Source == "" {
		return idmap.CloneTree(e.Path, false, -1)
	}
	return unix.OpenTree(unix.AT_FDCWD, imageDir+e.Source, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE|unix.AT_SYMLINK_NOFOLLOW)
}

func writeEtc(files []layout.File) error {
	if err := os.MkdirAll("etc", 0o755); err != nil {
		return fmt.Errorf("creating /etc: %w", err)
	}
	for _, f := range files {
		if err := os.WriteFile("etc/"+f.Name, f.Data, 0o644); err != nil {
			return fmt.Errorf("writing /etc/%s: %w", f.Name, err)
		}
	}
	return os.Symlink("../proc/self/mounts", "etc/mtab")
}

var devLinks = map[string]string{
	"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2", "ptmx": "pts/ptmx",
}

// makeDev creates /dev with harmless devices. It binds the host's device files,
// because device files cannot be created in a user namespace.
func makeDev(shmMax int64) error {
	if err := mountNew("tmpfs", "dev", unix.MS_NOSUID|unix.MS_NOEXEC, "size=64k,mode=755"); err != nil {
		return err
	}
	for _, name := range []string{"null", "zero", "full", "random", "urandom", "tty"} {
		inside := "dev/" + name
		if err := os.WriteFile(inside, nil, 0o644); err != nil {
			return fmt.Errorf("creating /dev/%s: %w", name, err)
		}
		if err := unix.Mount("/dev/"+name, inside, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("mounting /dev/%s: %w", name, err)
		}
	}
	for name, target := range devLinks {
		if err := os.Symlink(target, "dev/"+name); err != nil {
			return fmt.Errorf("linking /dev/%s: %w", name, err)
		}
	}
	// The limit of 64 terminals leaves terminals for other sandboxes: the kernel's
	// own limit is shared by all.
	if err := mountNew("devpts", "dev/pts", unix.MS_NOSUID|unix.MS_NOEXEC, "newinstance,ptmxmode=0666,mode=0620,max=64"); err != nil {
		return err
	}
	return mountNew("tmpfs", "dev/shm", unix.MS_NOSUID|unix.MS_NODEV, "mode=1777"+sizeOption(shmMax))
}

// makeTmp mounts /tmp in memory, unless the plan mounts a host folder there. /var/tmp
// is a link to /tmp.
func makeTmp(p *Plan) error {
	if err := os.MkdirAll("var", 0o755); err != nil {
		return fmt.Errorf("creating /var: %w", err)
	}
	if err := os.Symlink("/tmp", "var/tmp"); err != nil {
		return fmt.Errorf("linking /var/tmp: %w", err)
	}
	if p.hasMount(agentinit.TmpDir) {
		return nil
	}
	return mountNew("tmpfs", "tmp", unix.MS_NOSUID|unix.MS_NODEV, "mode=1777"+sizeOption(p.TmpMax))
}

func sizeOption(bytes int64) string {
	if bytes <= 0 {
		return ""
	}
	return ",size=" + strconv.FormatInt(bytes, 10)
}

func mountProc() error {
	return mountNew("proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "")
}

func mountNew(kind, at string, flags uintptr, options string) error {
	if err := os.Mkdir(at, 0o755); err != nil {
		return fmt.Errorf("creating /%s: %w", at, err)
	}
	if err := unix.Mount(kind, at, kind, flags, options); err != nil {
		return fmt.Errorf("mounting /%s: %w", at, err)
	}
	return nil
}

func readOnly(at string) error {
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}
	if err := unix.MountSetattr(unix.AT_FDCWD, at, 0, &attr); err != nil {
		return fmt.Errorf("making /%s read-only: %w", at, err)
	}
	return nil
}

// pivotRoot makes the working directory the root. If ranged is false, the host's root
// stays mounted in hostDir, because attach needs it.
func pivotRoot(ranged bool) error {
	if err := os.Mkdir(hostDir, 0o700); err != nil {
		return fmt.Errorf("changing root: %w", err)
	}
	if err := unix.PivotRoot(".", hostDir); err != nil {
		return fmt.Errorf("changing root: %w", err)
	}
	if err := os.Chdir("/"); err != nil {
		return fmt.Errorf("changing root: %w", err)
	}
	if ranged {
		return unmountHost()
	}
	return nil
}

func unmountHost() error {
	if err := unix.Unmount("/"+hostDir, unix.MNT_DETACH); err != nil {
		return fmt.Errorf("leaving the old root: %w", err)
	}
	if err := os.Remove("/" + hostDir); err != nil {
		return fmt.Errorf("leaving the old root: %w", err)
	}
	return nil
}
