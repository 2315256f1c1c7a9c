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
	"github.com/stint-dev/stint/internal/sandbox/agentinit"
	"github.com/stint-dev/stint/internal/sandbox/hostview"
	"github.com/stint-dev/stint/internal/sandbox/idmap"
	"github.com/stint-dev/stint/internal/sandbox/overlay"
)

// bind is a part of the host that a container shows.
type bind struct {
	source, target string
	writable       bool
	caller         bool     // a folder of the caller's, which the agent owns inside
	layers         []string // in place of source, laid over each other
	upper          string   // takes what is changed of layers; may be empty
	twin           string   // target of an earlier bind, which this one shows again
}

// Places below the state folder.
const (
	boxesDir = "boxes"
	mountDir = "mounts" // of a box: what the daemon binds from
)

// callers lists the caller's folders, and makes the one that becomes /tmp.
func callers(s sandbox.Spec, system []hostview.Entry) ([]bind, error) {
	list := mountBinds(s.Mounts)
	for _, own := range []bind{{source: s.Home, target: sandbox.HomeDir}, {source: s.Workspace, target: sandbox.WorkspaceDir}} {
		if !slices.ContainsFunc(list, func(b bind) bool { return b.target == own.target }) {
			own.writable, own.caller = true, true
			list = append(list, own)
		}
	}
	if s.Run != "" {
		list = append(list, bind{source: s.Run, target: sandbox.RunDir, caller: true})
	}
	if s.Scratch != "" {
		// On disk rather than in memory, where an agent's builds and caches
		// would count against its memory.
		tmp := filepath.Join(s.Scratch, "tmp")
		if err := errors.Join(os.Mkdir(tmp, 0o700), os.Chmod(tmp, 0o777|os.ModeSticky)); err != nil {
			return nil, fmt.Errorf("making /tmp: %w", err)
		}
		list = append(list, bind{source: tmp, target: agentinit.TmpDir, writable: true, caller: true})
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

// mountBinds gives a bind for each target of mounts.
func mountBinds(mounts []sandbox.Mount) []bind {
	var list []bind
	for _, m := range sandbox.Plain(mounts) {
		targets := append([]string{m.Target}, m.Alias...)
		slices.SortStableFunc(targets, func(a, b string) int { return cmp.Compare(len(a), len(b)) }) // as all will be
		for i, target := range targets {
			b := bind{source: m.Source, target: target, writable: m.Writable || m.Upper != "", caller: true, layers: m.Layers, upper: m.Upper}
			if i > 0 {
				b.twin = targets[0]
			}
			list = append(list, b)
		}
	}
	return list
}

// sources are the folders of the host that a bind reads.
func (b bind) sources() []string {
	if len(b.layers) > 0 {
		return b.layers
	}
	return []string{b.source}
}

// makeTarget sees to it that a folder inside another has something to lie on.
// On the way there is no link: the agent of an earlier run may have made one.
// free tells whether one that lies in no other may lie there; its folder the
// daemon makes.
func makeTarget(before []bind, b bind, free func() error) error {
	for _, dir := range b.sources() {
		if st, err := os.Stat(dir); err != nil || !st.IsDir() {
			return &sandbox.Error{Message: fmt.Sprintf("The folder for %s is missing on the host.", b.target), Err: err}
		}
	}
	for _, over := range slices.Backward(before) { // the longest is the nearest
		if over.target == b.target {
			return &sandbox.Error{Message: fmt.Sprintf("Two folders are mounted at %s.", b.target)}
		}
		rel, ok := strings.CutPrefix(b.target, over.target+"/")
		if !ok {
			continue
		}
		if err := over.makeInside(rel); err != nil {
			return &sandbox.Error{Message: fmt.Sprintf("The folder %s cannot be made inside %s.", b.target, over.target), Err: err}
		}
		return nil
	}
	return free()
}

func (b bind) makeInside(rel string) error {
	if len(b.layers) > 0 {
		return overlay.Place(b.layers, b.upper, rel)
	}
	return makeInside(b.source, rel)
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
		if b.twin != "" {
			first := slices.IndexFunc(list, func(o bind) bool { return o.target == b.twin })
			b = bind{source: filepath.Join(dir, strconv.Itoa(first)), target: b.target, writable: b.writable}
		}
		err := d.attachOne(b, at)
		if errors.Is(err, overlay.ErrRefused) {
			return nil, fmt.Errorf("%w: showing %s: %w", sandbox.ErrOverlay, b.target, err)
		}
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
	tree, err := d.tree(b)
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

func (d *Driver) tree(b bind) (int, error) {
	switch {
	case len(b.layers) > 0:
		return overlay.Mapped(b.layers, b.upper, int(d.view.Fd()), d.daemon.agent())
	case b.caller:
		return idmap.Tree(b.source, b.writable, int(d.view.Fd()))
	}
	return idmap.Tree(b.source, b.writable, -1)
}

// readyUppers makes ready what is to take the changes of layers. The work
// folders are the box's until Close.
func (b *box) readyUppers() error {
	for _, m := range b.spec.Mounts {
		if !m.Layered() {
			continue
		}
		if err := b.driver.noOverlay; err != nil {
			return fmt.Errorf("%w: %w", sandbox.ErrOverlay, err)
		}
		if m.Upper == "" {
			continue
		}
		if st, err := os.Stat(m.Upper); err != nil || !st.IsDir() {
			return &sandbox.Error{Message: fmt.Sprintf("The folder for changes at %s is missing on the host.", m.Target), Err: err}
		}
		err := overlay.Ready(m.Upper)
		if errors.Is(err, overlay.ErrRefused) {
			return fmt.Errorf("%w: %w", sandbox.ErrOverlay, err)
		}
		if err != nil {
			return fmt.Errorf("laying folders over each other at %s: %w", m.Target, err)
		}
		b.uppers = append(b.uppers, m.Upper)
	}
	return nil
}

// measured are the folders of the host that a bind lets the agent fill.
func (b bind) measured() []string {
	switch {
	case b.twin != "" || !b.writable:
		return nil
	case b.upper != "":
		return []string{b.upper, overlay.Work(b.upper)}
	}
	return []string{b.source}
}

// countOverlays lets the meter know the overlays' files by their device: a
// process that holds a deleted one shows it so.
func (b *box) countOverlays(dir string, list []bind) error {
	for i, o := range list {
		if o.upper == "" || o.twin != "" {
			continue
		}
		var st unix.Stat_t
		if err := unix.Stat(filepath.Join(dir, strconv.Itoa(i)), &st); err != nil {
			return fmt.Errorf("looking at %s: %w", o.target, err)
		}
		b.disk.Count(uint64(st.Dev))
	}
	return nil
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
		removeFile(filepath.Join(dir, "door", socketName)), removeFile(filepath.Join(dir, "door", agentinit.GuestName)),
		removeEmpty(filepath.Join(dir, "door")), removeEmpty(dir))
}

func (d *Driver) boxDir(id string) string { return filepath.Join(d.dir, boxesDir, id) }
