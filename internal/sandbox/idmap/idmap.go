// Package idmap creates ID-mapped mounts.
//
// An ID-mapped mount shows files of the server's user as files of the agent's
// user, and stores files that the agent creates as files of the server's user.
package idmap

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// NewUserNamespace returns a user namespace that maps a single user and group
// ID: files of owner are shown as files of agent. It briefly starts a process
// that is stopped before its first instruction.
func NewUserNamespace(owner uint32, agent int) (*os.File, error) {
	one := []syscall.SysProcIDMap{{ContainerID: int(owner), HostID: agent, Size: 1}}
	p, err := os.StartProcess("/proc/self/exe", []string{"stint-userns"}, &os.ProcAttr{
		Env: []string{},
		Sys: &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER, UidMappings: one, GidMappings: one, Ptrace: true},
	})
	if err != nil {
		return nil, fmt.Errorf("creating user namespace: %w", err)
	}
	f, err := os.Open(fmt.Sprintf("/proc/%d/ns/user", p.Pid))
	err = errors.Join(err, p.Kill())
	for {
		var ws syscall.WaitStatus
		if _, werr := syscall.Wait4(p.Pid, &ws, 0, nil); werr != syscall.EINTR && (werr != nil || !ws.Stopped()) {
			err = errors.Join(err, werr)
			break
		}
	}
	err = errors.Join(err, p.Release())
	if err != nil {
		return nil, fmt.Errorf("creating user namespace: %w", err)
	}
	return f, nil
}

// CloneTree clones the mounts at a path recursively, without setuid and
// devices, and ID-mapped unless userns is -1. The caller moves the returned
// mount and closes its descriptor.
func CloneTree(source string, writable bool, userns int) (int, error) {
	return clone(source, writable, userns, unix.AT_RECURSIVE)
}

// CloneMount is like CloneTree without the mounts below the path.
func CloneMount(source string, writable bool, userns int) (int, error) {
	return clone(source, writable, userns, 0)
}

func clone(source string, writable bool, userns int, recursive uint) (int, error) {
	fd, err := unix.OpenTree(unix.AT_FDCWD, source, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|recursive)
	if err != nil {
		return -1, fmt.Errorf("opening tree: %w", err)
	}
	// Private propagation: mounts inside do not appear on the host, and vice
	// versa.
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV, Propagation: unix.MS_PRIVATE}
	if !writable {
		attr.Attr_set |= unix.MOUNT_ATTR_RDONLY
	}
	if userns >= 0 {
		attr.Attr_set |= unix.MOUNT_ATTR_IDMAP
		attr.Userns_fd = uint64(userns)
	}
	if err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH|recursive, &attr); err != nil {
		unix.Close(fd)
		return -1, fmt.Errorf("setting mount attributes: %w", err)
	}
	return fd, nil
}
