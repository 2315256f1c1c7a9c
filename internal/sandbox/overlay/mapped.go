//go:build linux && (amd64 || arm64)

package overlay

import (
	"fmt"
	"path/filepath"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/stint-dev/stint/internal/sandbox/idmap"
)

// MountMapped returns an overlay as a detached mount, for a server with root
// privileges. The folders are shown as mapped by the user namespace userns,
// which must map only the server's user, to the user ID agent. With an empty
// upper the overlay is read-only; otherwise MakeWorkDir must have been called. The
// caller moves the returned mount and closes its descriptor. The error wraps
// ErrUnsupported.
//
// The kernel accesses the folders as the user that mounted the overlay, and only
// the agent's user can be stored in them. The overlay is therefore mounted by a
// thread that switches to the agent's user for file access and then ends.
// Such a change of a thread's user has the effect that only root can trace the
// process afterwards.
func MountMapped(layers []string, upper string, userns, agent int) (int, error) {
	s := &mappedFolders{Folders: Folders{Upper: -1, Work: -1}}
	defer s.close()
	if err := s.add(layers, upper, userns); err != nil {
		return -1, fmt.Errorf("%w: %w", ErrUnsupported, err)
	}
	return onNewThread(func() (int, error) {
		if err := setFileUser(agent); err != nil {
			return -1, fmt.Errorf("%w: %w", ErrUnsupported, err)
		}
		if fd, err := s.mountByDescriptor(); err == nil {
			return fd, nil
		}
		return s.mountInNamespace()
	})
}

// mappedFolders are folders in ID-mapped trees that are not mounted.
type mappedFolders struct {
	Folders
	trees []int    // of the layers, and of the folder that contains upper and work
	paths []string // host paths of trees
}

func (s *mappedFolders) add(layers []string, upper string, userns int) error {
	for _, l := range layers {
		fd, err := s.clone(l, false, userns)
		if err != nil {
			return err
		}
		s.Lower = append(s.Lower, fd)
	}
	if upper == "" {
		return nil
	}
	holder, err := s.clone(filepath.Dir(upper), true, userns)
	if err != nil {
		return err
	}
	if s.Upper, err = openIn(holder, filepath.Base(upper)); err != nil {
		return err
	}
	s.Work, err = openIn(holder, filepath.Base(WorkDir(upper)))
	return err
}

func (s *mappedFolders) clone(path string, writable bool, userns int) (int, error) {
	fd, err := idmap.CloneMount(path, writable, userns)
	if err != nil {
		return -1, fmt.Errorf("mounting %s: %w", path, err)
	}
	s.trees, s.paths = append(s.trees, fd), append(s.paths, path)
	return fd, nil
}

func openIn(dir int, name string) (int, error) {
	fd, err := unix.Openat(dir, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("opening %s: %w", name, err)
	}
	return fd, nil
}

func (s *mappedFolders) close() {
	for _, fd := range append(s.trees, s.Upper, s.Work) {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
}

// onNewThread runs call on a thread that ends afterwards, and returns its result.
func onNewThread(call func() (int, error)) (fd int, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		if unix.Gettid() == unix.Getpid() {
			// The process's first thread must not be changed. While this
			// goroutine holds it, the next goroutine runs on another thread.
			fd, err = onNewThread(call)
			runtime.UnlockOSThread()
			return
		}
		fd, err = call() // the thread stays locked, so that it ends with the goroutine
	}()
	<-done
	return fd, err
}

// setFileUser sets the calling thread's user for file access. It restores the
// capabilities that the kernel drops on this change.
func setFileUser(user int) error {
	for _, take := range []func(int) (int, error){unix.SetfsgidRetGid, unix.SetfsuidRetUid} {
		if _, err := take(user); err != nil {
			return fmt.Errorf("taking the agent's user: %w", err)
		}
		now, err := take(-1)
		if err != nil {
			return fmt.Errorf("taking the agent's user: %w", err)
		}
		if now != user {
			return fmt.Errorf("taking the agent's user: the user is %d, want %d", now, user)
		}
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var rights [2]unix.CapUserData
	if err := unix.Capget(&header, &rights[0]); err != nil {
		return fmt.Errorf("keeping rights: %w", err)
	}
	for i := range rights {
		rights[i].Effective = rights[i].Permitted
	}
	if err := unix.Capset(&header, &rights[0]); err != nil {
		return fmt.Errorf("keeping rights: %w", err)
	}
	return nil
}

// mountInNamespace returns the overlay as a detached mount, on kernels that require
// its folders to be mounted. It mounts each tree over the tree's host path, in a mount
// namespace that ends with the thread. The overlay keeps its own references to the
// folders.
func (s *mappedFolders) mountInNamespace() (int, error) {
	if err := s.enterNamespace(); err != nil {
		return -1, fmt.Errorf("%w: %w", ErrUnsupported, err)
	}
	return s.mountAndDetach(s.paths[0])
}

func (s *mappedFolders) enterNamespace() error {
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("creating a mount namespace: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("making mounts private: %w", err)
	}
	for i, tree := range s.trees {
		if err := unix.MoveMount(tree, "", unix.AT_FDCWD, s.paths[i], unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
			return fmt.Errorf("mounting %s: %w", s.paths[i], err)
		}
	}
	return nil
}
