//go:build linux && (amd64 || arm64)

package docker

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/moby/moby/api/types/mount"
	"golang.org/x/sys/unix"

	"github.com/stint-dev/stint/internal/sandbox"
	"github.com/stint-dev/stint/internal/sandbox/hostview"
	"github.com/stint-dev/stint/internal/sandbox/idmap"
	"github.com/stint-dev/stint/internal/sandbox/warden"
)

// bind is a part of the host that a container shows.
type bind struct {
	source, target string
	writable       bool
	caller         bool // a folder of the caller's, which the agent owns inside
}

// Places below the state folder.
const (
	boxesDir = "boxes"
	mountDir = "mounts" // of a box: what the daemon binds from
)

// callers lists the caller's folders, and makes the one that becomes /tmp.
func callers(s sandbox.Spec, system []hostview.Entry) ([]bind, error) {
	list := []bind{
		{source: s.Home, target: sandbox.HomeDir, writable: true, caller: true},
		{source: s.Workspace, target: sandbox.WorkspaceDir, writable: true, caller: true},
	}
	if s.Run != "" {
		list = append(list, bind{source: s.Run, target: sandbox.RunDir, caller: true})
	}
	for _, m := range s.Mounts {
		list = append(list, bind{source: m.Source, target: m.Target, writable: m.Writable, caller: true})
	}
	if s.Scratch != "" {
		// On disk rather than in memory, where an agent's builds and caches
		// would count against its memory.
		tmp := filepath.Join(s.Scratch, "tmp")
		if err := errors.Join(os.Mkdir(tmp, 0o700), os.Chmod(tmp, 0o777|os.ModeSticky)); err != nil {
			return nil, fmt.Errorf("making /tmp: %w", err)
		}
		list = append(list, bind{source: tmp, target: warden.TmpDir, writable: true, caller: true})
	}
	slices.SortStableFunc(list, func(a, b bind) int { return cmp.Compare(len(a.target), len(b.target)) })
	for i, b := range list {
		err := makeTarget(list[:i], b, func() error { return hostview.CheckPlace(b.target, system, s.Image) })
		if err != nil {
			return nil, err
		}
	}
	return list, nil
}

// makeTarget sees to it that a folder inside another has something to lie on.
// On the way there is no link: the agent of an earlier run may have made one.
// free tells whether one that lies in no other may lie there; its folder the
// daemon makes.
func makeTarget(before []bind, b bind, free func() error) error {
	if st, err := os.Stat(b.source); err != nil || !st.IsDir() {
		return &sandbox.Error{Message: fmt.Sprintf("The folder for %s is missing on the host.", b.target), Err: err}
	}
	for _, over := range slices.Backward(before) { // the longest is the nearest
		if over.target == b.target {
			return &sandbox.Error{Message: fmt.Sprintf("Two folders are mounted at %s.", b.target)}
		}
		rel, ok := strings.CutPrefix(b.target, over.target+"/")
		if !ok {
			continue
		}
		if err := makeInside(over.source, rel); err != nil {
			return &sandbox.Error{Message: fmt.Sprintf("The folder %s cannot be made inside %s.", b.target, over.target), Err: err}
		}
		return nil
	}
	return free()
}

func makeInside(dir, rel string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	if err := root.MkdirAll(rel, 0o755); err != nil {
		return err
	}
	at, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer at.Close()
	fd, err := unix.Openat2(int(at.Fd()), rel, &unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS,
	})
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

// attach makes a mount of each bind below dir, with the rights that the agent
// is to have, for the daemon to bind from: a bind of a mount keeps them, while
// the daemon's own "read-only" forgets what lies deeper.
func (d *Driver) attach(dir string, list []bind) ([]mount.Mount, error) {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, fmt.Errorf("making mounts: %w", err)
	}
	var mounts []mount.Mount
	for i, b := range list {
		at := filepath.Join(dir, strconv.Itoa(i))
		err := d.attachOne(b, at)
		if b.caller && (errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOSYS)) {
			return nil, &sandbox.Error{Message: fmt.Sprintf("The file system that holds the folder for %s has no ID-mapped mounts; keep Stint's data on ext4, xfs, btrfs or, from Linux 6.3 on, tmpfs.", b.target), Err: err}
		}
		if err != nil {
			return nil, fmt.Errorf("showing %s: %w", b.target, err)
		}
		mounts = append(mounts, mount.Mount{
			Type: mount.TypeBind, Source: at, Target: b.target,
			BindOptions: &mount.BindOptions{Propagation: mount.PropagationRPrivate},
		})
	}
	return mounts, nil
}

func (d *Driver) attachOne(b bind, at string) error {
	view := -1
	if b.caller {
		view = int(d.view.Fd())
	}
	tree, err := idmap.Tree(b.source, b.writable, view)
	if err != nil {
		return err
	}
	defer unix.Close(tree)
	var st unix.Stat_t
	if err := unix.Fstat(tree, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		err = os.Mkdir(at, 0o700)
	} else {
		err = os.WriteFile(at, nil, 0o600)
	}
	if err != nil {
		return err
	}
	return unix.MoveMount(tree, "", unix.AT_FDCWD, at, unix.MOVE_MOUNT_F_EMPTY_PATH)
}

// detach takes the mounts away again, and removes what they lay on. Nothing is
// ever removed that is not empty: were a mount still there, that would be the
// caller's files.
func detach(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range entries {
		at := filepath.Join(dir, e.Name())
		for {
			err := unix.Unmount(at, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
			if err == unix.EINVAL { // no mount (any more)
				break
			}
			if err != nil {
				errs = append(errs, fmt.Errorf("unmounting %s: %w", at, err))
				break
			}
		}
		errs = append(errs, removeEmpty(at))
	}
	errs = append(errs, removeEmpty(dir))
	return errors.Join(errs...)
}

// removeEmpty removes an empty folder or file; a file that is not empty stays.
func removeEmpty(path string) error {
	st, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if st.Mode().IsRegular() && st.Size() > 0 {
		return fmt.Errorf("%s is not empty", path)
	}
	return os.Remove(path) // a folder with anything in it is refused by the kernel
}

func removeFile(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// removeBox removes a box's folder, whose container is gone.
func (d *Driver) removeBox(id string) error {
	dir := d.boxDir(id)
	return errors.Join(
		detach(filepath.Join(dir, mountDir)),
		removeFile(filepath.Join(dir, "door", socketName)), removeFile(filepath.Join(dir, "door", warden.GuestName)),
		removeEmpty(filepath.Join(dir, "door")), removeEmpty(dir))
}

func (d *Driver) boxDir(id string) string { return filepath.Join(d.dir, boxesDir, id) }
