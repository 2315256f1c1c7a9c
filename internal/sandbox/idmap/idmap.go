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

// NewUserNamespace returns a user namespace for ID-mapped mounts that show files of
// user and group owner as files of user and group agent. To create the namespace, it
// starts a process, which is stopped before its first instruction and killed.
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

// CloneTree returns the descriptor of a detached clone of the mount at source and
// of all mounts below. The clone ignores setuid bits and devices, and is ID-mapped
// by the user namespace userns unless userns is -1. The caller attaches the clone
// with move_mount and closes the descriptor.
func CloneTree(source string, writable bool, userns int) (int, error) {
	return clone(source, writable, userns, unix.AT_RECURSIVE)
}

// CloneMount is like CloneTree but does not clone the mounts below source.
func CloneMount(source string, writable bool, userns int) (int, error) {
	return clone(source, writable, userns, 0)
}

func clone(source string, writable bool, userns int, recursive uint) (int, error) {
	fd, err := unix.OpenTree(unix.AT_FDCWD, source, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|recursive)
	if err != nil {
		return -1, fmt.Errorf("opening tree: %w", err)
	}
	// With private propagation, mounts in the sandbox do not appear on the host,
	// and mounts on the host do not appear in the sandbox.
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
