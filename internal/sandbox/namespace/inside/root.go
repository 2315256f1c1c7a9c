//go:build linux && (amd64 || arm64)

package inside

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/stint-dev/stint/internal/sandbox/warden"
)

// buildRoot makes the sandbox's file system and moves into it. The old one is
// gone afterwards. It runs in init, in a mount namespace of its own.
func buildRoot(p *Plan) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("making mounts private: %w", err)
	}
	trees, err := openMounts(p.Mounts) // before anything covers a source
	if err != nil {
		return err
	}
	if err := enterNewRoot(); err != nil {
		return err
	}
	root, err := unix.Open(".", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("opening new root: %w", err)
	}
	defer unix.Close(root)
	for _, step := range []func() error{
		func() error { return bindSystem(p.System) },
		func() error { return writeEtc(p.Etc) },
		func() error { return makeDev(p.ShmMax) },
		func() error { return makeTmp(p) },
		mountProc,
		func() error { return attachMounts(root, p.Mounts, trees) },
		func() error { return readOnly("dev") },
		func() error { return readOnly(".") },
		swapRoot,
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// openMounts gives a detached tree for each mount: those that the server made
// ready, and those that we may bind ourselves.
func openMounts(mounts []Mount) ([]int, error) {
	trees := make([]int, len(mounts))
	for i, m := range mounts {
		if m.FD != 0 {
			trees[i] = m.FD
			continue
		}
		fd, err := DetachedTree(m.Source, m.Writable, -1)
		if err != nil {
			return nil, fmt.Errorf("showing %s: %w", m.Target, err)
		}
		trees[i] = fd
	}
	return trees, nil
}

// DetachedTree clones the mounts at a path, without setuid and devices, mapped
// by a user namespace when its descriptor is given.
func DetachedTree(source string, writable bool, userns int) (int, error) {
	fd, err := unix.OpenTree(unix.AT_FDCWD, source, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
	if err != nil {
		return -1, fmt.Errorf("opening tree: %w", err)
	}
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV}
	if !writable {
		attr.Attr_set |= unix.MOUNT_ATTR_RDONLY
	}
	if userns >= 0 {
		attr.Attr_set |= unix.MOUNT_ATTR_IDMAP
		attr.Userns_fd = uint64(userns)
	}
	if err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &attr); err != nil {
		unix.Close(fd)
		return -1, fmt.Errorf("setting mount attributes: %w", err)
	}
	return fd, nil
}

// enterNewRoot mounts an empty file system somewhere and goes there. From here
// on relative paths are the new root's, absolute ones the host's.
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

func bindSystem(entries []SystemEntry) error {
	for _, e := range entries {
		inside := "." + e.Path
		if err := os.MkdirAll(filepath.Dir(inside), 0o755); err != nil {
			return fmt.Errorf("making %s: %w", e.Path, err)
		}
		if e.Link != "" {
			if err := os.Symlink(e.Link, inside); err != nil {
				return fmt.Errorf("linking %s: %w", e.Path, err)
			}
			continue
		}
		if err := bindOne(e, inside); err != nil {
			return fmt.Errorf("showing %s: %w", e.Path, err)
		}
	}
	return nil
}

func bindOne(e SystemEntry, inside string) error {
	fd, err := DetachedTree(e.Path, false, -1)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // removed from the host since the server looked
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

func writeEtc(files []File) error {
	if err := os.MkdirAll("etc", 0o755); err != nil {
		return fmt.Errorf("making /etc: %w", err)
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

// makeDev gives the harmless devices, by binding the host's: a user namespace
// cannot make any.
func makeDev(shmMax int64) error {
	if err := mountNew("tmpfs", "dev", unix.MS_NOSUID|unix.MS_NOEXEC, "size=64k,mode=755"); err != nil {
		return err
	}
	for _, name := range []string{"null", "zero", "full", "random", "urandom", "tty"} {
		inside := "dev/" + name
		if err := os.WriteFile(inside, nil, 0o644); err != nil {
			return fmt.Errorf("making /dev/%s: %w", name, err)
		}
		if err := unix.Mount("/dev/"+name, inside, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("showing /dev/%s: %w", name, err)
		}
	}
	for name, target := range devLinks {
		if err := os.Symlink(target, "dev/"+name); err != nil {
			return fmt.Errorf("linking /dev/%s: %w", name, err)
		}
	}
	if err := mountNew("devpts", "dev/pts", unix.MS_NOSUID|unix.MS_NOEXEC, "newinstance,ptmxmode=0666,mode=0620"); err != nil {
		return err
	}
	return mountNew("tmpfs", "dev/shm", unix.MS_NOSUID|unix.MS_NODEV, "mode=1777"+sizeOption(shmMax))
}

// makeTmp makes /tmp in memory, unless the caller's scratch folder holds it.
func makeTmp(p *Plan) error {
	if err := os.MkdirAll("var", 0o755); err != nil {
		return fmt.Errorf("making /var: %w", err)
	}
	if err := os.Symlink("/tmp", "var/tmp"); err != nil {
		return fmt.Errorf("linking /var/tmp: %w", err)
	}
	for _, m := range p.Mounts {
		if m.Target == warden.TmpDir {
			return nil
		}
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
		return fmt.Errorf("making /%s: %w", at, err)
	}
	if err := unix.Mount(kind, at, kind, flags, options); err != nil {
		return fmt.Errorf("mounting /%s: %w", at, err)
	}
	return nil
}

// attachMounts puts the caller's folders where they belong. A link on the way
// is refused: the agent of an earlier run may have made it.
func attachMounts(root int, mounts []Mount, trees []int) error {
	for i, m := range mounts {
		if m.Make {
			if err := os.MkdirAll("."+m.Target, 0o755); err != nil {
				return fmt.Errorf("making %s: %w", m.Target, err)
			}
		}
		at, err := unix.Openat2(root, strings.TrimPrefix(m.Target, "/"), &unix.OpenHow{
			Flags:   unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC,
			Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_SYMLINKS,
		})
		if err != nil {
			return fmt.Errorf("opening %s: %w", m.Target, err)
		}
		err = unix.MoveMount(trees[i], "", at, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
		unix.Close(at)
		unix.Close(trees[i])
		if err != nil {
			return fmt.Errorf("mounting %s: %w", m.Target, err)
		}
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

func swapRoot() error {
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("changing root: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("leaving the old root: %w", err)
	}
	return os.Chdir("/")
}

// raiseLoopback makes 127.0.0.1 and ::1 work inside; there is no other
// interface.
func raiseLoopback() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("raising loopback: %w", err)
	}
	defer unix.Close(fd)
	req, err := unix.NewIfreq("lo")
	if err != nil {
		return fmt.Errorf("raising loopback: %w", err)
	}
	req.SetUint16(unix.IFF_UP)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, req); err != nil {
		return fmt.Errorf("raising loopback: %w", err)
	}
	if err := unix.Sethostname([]byte(warden.HostName)); err != nil {
		return fmt.Errorf("naming the host: %w", err)
	}
	return nil
}
