//go:build linux && (amd64 || arm64)

// Package idmap answers: how does a folder of the server belong to an agent?
//
// By a second mount of it in which the kernel shows the server's user as the
// agent's, and stores what the agent makes as the server's.
package idmap

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// NewUserNamespace makes a user namespace that maps one user and group ID: owner of files is
// shown as agent. It needs a process for a moment, one that is stopped before
// its first instruction.
func NewUserNamespace(owner uint32, agent int) (*os.File, error) {
	one := []syscall.SysProcIDMap{{ContainerID: int(owner), HostID: agent, Size: 1}}
	p, err := os.StartProcess("/proc/self/exe", []string{"stint-view"}, &os.ProcAttr{
		Env: []string{},
		Sys: &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER, UidMappings: one, GidMappings: one, Ptrace: true},
	})
	if err != nil {
		return nil, fmt.Errorf("making user namespace: %w", err)
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
		return nil, fmt.Errorf("making user namespace: %w", err)
	}
	return f, nil
}

// CloneTree clones the mounts at a path, without setuid and devices, mapped by a user
// namespace unless its descriptor is -1. The descriptor that it gives is the
// caller's to move somewhere and to close.
func CloneTree(source string, writable bool, userns int) (int, error) {
	return clone(source, writable, userns, unix.AT_RECURSIVE)
}

// CloneMount is CloneTree without what is mounted deeper.
func CloneMount(source string, writable bool, userns int) (int, error) {
	return clone(source, writable, userns, 0)
}

func clone(source string, writable bool, userns int, recursive uint) (int, error) {
	fd, err := unix.OpenTree(unix.AT_FDCWD, source, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|recursive)
	if err != nil {
		return -1, fmt.Errorf("opening tree: %w", err)
	}
	// Private: what is mounted inside must not appear on the host, nor the reverse.
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
