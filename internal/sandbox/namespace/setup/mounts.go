//go:build linux && (amd64 || arm64)

package setup

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/stint-dev/stint/internal/sandbox/agentinit"
)

// placeMounts moves the trees of mounts to their targets, and mounts aliases. It
// refuses symbolic links in the paths of targets, because the agent of an earlier run
// may have created them.
func placeMounts(root int, mounts []Mount, trees []int) error {
	for i, m := range mounts {
		var err error
		if m.AliasOf != "" {
			err = placeAlias(root, m)
		} else {
			err = placeTree(root, m, trees[i])
		}
		if err != nil {
			return fmt.Errorf("mounting %s: %w", m.Target, err)
		}
	}
	return nil
}

func placeTree(root int, m Mount, tree int) error {
	at, err := openTarget(root, m)
	if err != nil {
		return err
	}
	defer unix.Close(at)
	return unix.MoveMount(tree, "", at, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
}

// placeAlias bind-mounts an existing mount at another target.
func placeAlias(root int, m Mount) error {
	first, err := openBeneath(root, m.AliasOf, unix.O_DIRECTORY, unix.RESOLVE_NO_SYMLINKS)
	if err != nil {
		return err
	}
	defer unix.Close(first)
	at, err := openTarget(root, m)
	if err != nil {
		return err
	}
	defer unix.Close(at)
	return unix.Mount(fdPath(first), fdPath(at), "", unix.MS_BIND, "")
}

// openTarget opens a mount's target folder, and creates it if necessary.
func openTarget(root int, m Mount) (int, error) {
	if m.MakeTarget {
		if err := makeFolder(root, m.Target); err != nil {
			return -1, fmt.Errorf("creating %s: %w", m.Target, err)
		}
	}
	at, err := openBeneath(root, m.Target, unix.O_DIRECTORY, unix.RESOLVE_NO_SYMLINKS)
	if err != nil {
		return -1, fmt.Errorf("opening %s: %w", m.Target, err)
	}
	return at, nil
}

// makeFolder creates the missing folders of a path below root. It does not follow
// symbolic links.
func makeFolder(root int, path string) error {
	at, err := unix.Openat(root, ".", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	for name := range strings.SplitSeq(strings.Trim(path, "/"), "/") {
		if err = unix.Mkdirat(at, name, 0o755); err != nil && !errors.Is(err, unix.EEXIST) {
			break
		}
		var next int
		next, err = unix.Openat(at, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			break
		}
		unix.Close(at)
		at = next
	}
	unix.Close(at)
	return err
}

// openBeneath opens a path that is resolved as if root were /. resolve are additional
// RESOLVE flags of openat2.
func openBeneath(root int, path string, flags, resolve uint64) (int, error) {
	return unix.Openat2(root, strings.TrimPrefix(path, "/"), &unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_CLOEXEC | flags,
		Resolve: unix.RESOLVE_IN_ROOT | resolve,
	})
}

// attach handles the attach message, which the server sends before the command's
// start, while init has the privilege to mount.
func (p *initProcess) attach(fds []int) error {
	if len(fds) == 0 {
		return errors.New("attaching: the descriptors are missing")
	}
	var a Attachment
	if err := agentinit.ReadMemoryFile(fds[0], &a); err != nil {
		return fmt.Errorf("attaching: %w", err)
	}
	root, err := unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("attaching: %w", err)
	}
	defer unix.Close(root)
	// Overlays are mounted first, because the kernel may refuse them. After such
	// an error, no mount has been placed.
	trees, staged, err := attachedTrees(a.Mounts, fds[1:])
	defer closeAll(staged)
	if err != nil {
		return fmt.Errorf("attaching: %w", errors.Join(err, unstageOverlays(len(staged))))
	}
	for i, m := range a.Mounts {
		if trees[i] < 0 && m.AliasOf == "" {
			err = bindFromHost(root, m)
		} else {
			err = placeMounts(root, []Mount{m}, trees[i:i+1])
		}
		if err != nil {
			return fmt.Errorf("attaching %s: %w", m.Target, err)
		}
	}
	if err := unstageOverlays(0); err != nil {
		return fmt.Errorf("attaching: %w", err)
	}
	if err := allowMounts(p.landlock, a.Mounts); err != nil {
		return fmt.Errorf("attaching: %w", err)
	}
	return p.resizeTmpfs(&a)
}

// attachedTrees returns a tree for each mount: a tree that was received, or a staged
// overlay, or -1 for an alias or a folder that is bound from the host's root. The
// caller closes staged, even after an error.
func attachedTrees(mounts []Mount, received []int) (trees, staged []int, err error) {
	trees = make([]int, len(mounts))
	for i, m := range mounts {
		trees[i] = -1
		switch {
		case m.AliasOf != "":
		case m.FD != 0 && len(received) == 0:
			return nil, staged, fmt.Errorf("the tree for %s is missing", m.Target)
		case m.FD != 0:
			trees[i], received = received[0], received[1:]
		case len(m.Layers) > 0:
			if trees[i], err = stageOverlay(m); err != nil {
				return nil, staged, fmt.Errorf("mounting %s: %w", m.Target, err)
			}
			staged = append(staged, trees[i])
		}
	}
	return trees, staged, nil
}

// bindFromHost binds a folder of the host's root, which is still mounted, to its
// target.
func bindFromHost(root int, m Mount) error {
	source, err := openOldRootDir(m.Source)
	if err != nil {
		return err
	}
	defer unix.Close(source)
	at, err := openTarget(root, m)
	if err != nil {
		return err
	}
	defer unix.Close(at)
	if err := unix.Mount(fdPath(source), fdPath(at), "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return err
	}
	top, err := openBeneath(root, m.Target, unix.O_DIRECTORY, unix.RESOLVE_NO_SYMLINKS)
	if err != nil {
		return err
	}
	defer unix.Close(top)
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV, Propagation: unix.MS_PRIVATE}
	if !m.Writable {
		attr.Attr_set |= unix.MOUNT_ATTR_RDONLY
	}
	return unix.MountSetattr(top, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &attr)
}

func fdPath(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }

// resizeTmpfs applies the limits of an attachment to the file systems in memory:
// /dev/shm, and /tmp unless it is a host folder.
func (p *initProcess) resizeTmpfs(a *Attachment) error {
	if err := remount("/dev/shm", a.ShmMax); err != nil {
		return err
	}
	if p.plan.hasMount(agentinit.TmpDir) {
		return nil
	}
	return remount(agentinit.TmpDir, a.TmpMax)
}

// remount sets the size of a tmpfs in bytes; 0 is the kernel's default.
func remount(at string, bytes int64) error {
	size := "size=50%" // the kernel's default
	if bytes > 0 {
		size = "size=" + strconv.FormatInt(bytes, 10)
	}
	if err := unix.Mount("", at, "", unix.MS_REMOUNT|unix.MS_NOSUID|unix.MS_NODEV, size); err != nil {
		return fmt.Errorf("resizing %s: %w", at, err)
	}
	return nil
}

// hasMount reports whether a host folder is mounted at path.
func (p *Plan) hasMount(path string) bool {
	for _, m := range p.Mounts {
		if m.Target == path {
			return true
		}
	}
	return false
}
