//go:build linux && (amd64 || arm64)

package setup

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/stint-dev/stint/internal/sandbox/agentinit"
)

// Versions of Landlock's interface that introduced a feature.
const (
	landlockRefer  = 2 // moving files between folders; always refused before
	landlockTrunc  = 3 // truncating files
	landlockDevice = 5 // ioctl of device files
	landlockScope  = 6 // signals and abstract sockets
)

const (
	accessRead  = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR
	accessWrite = unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE
	// accessAll excludes the creation of device files, which the system call
	// filter also refuses.
	accessAll = accessRead | accessWrite | unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE |
		unix.LANDLOCK_ACCESS_FS_MAKE_DIR | unix.LANDLOCK_ACCESS_FS_MAKE_REG | unix.LANDLOCK_ACCESS_FS_MAKE_SOCK |
		unix.LANDLOCK_ACCESS_FS_MAKE_FIFO | unix.LANDLOCK_ACCESS_FS_MAKE_SYM | unix.LANDLOCK_ACCESS_FS_REFER
	accessHandled = accessAll | unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
)

// LandlockVersion returns the version of the kernel's Landlock interface, or 0 if
// Landlock cannot be used. Version 1 cannot be used, because it does not let
// programs move their own files between folders.
func LandlockVersion() int {
	v, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 || v < landlockRefer {
		return 0
	}
	return int(v)
}

// LandlockHasScopes reports whether a version of Landlock can also restrict signals
// and abstract sockets to the sandbox.
func LandlockHasScopes(version int) bool { return version >= landlockScope }

// newRuleset creates a ruleset that duplicates the protection by mounts and
// modes: programs may read and execute all files that the sandbox shows, and write
// only to writable mounts, temporary files, /dev, and /proc. It returns the ruleset's
// descriptor, or -1 if Landlock cannot be used.
func newRuleset(p *Plan) (int, error) {
	version := LandlockVersion()
	if version == 0 {
		return -1, nil
	}
	attr := unix.LandlockRulesetAttr{Handled_access_fs: supportedAccess(version)}
	if LandlockHasScopes(version) {
		attr.Scoped = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL
	}
	size := unsafe.Offsetof(attr.Quiet_access_fs) // older kernels accept zeros in fields that they do not know
	fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), size, 0)
	if errno != 0 {
		return -1, fmt.Errorf("creating Landlock rules: %w", errno)
	}
	rules := int(fd)
	err := allowSystemDirs(rules, attr.Handled_access_fs)
	if err == nil {
		err = allowMounts(rules, p.Mounts)
	}
	if err != nil {
		unix.Close(rules)
		return -1, err
	}
	return rules, nil
}

// restrict applies the ruleset to the calling thread and its children, and closes
// its descriptor. It does nothing if rules is -1.
func restrict(rules int) error {
	if rules < 0 {
		return nil
	}
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(rules), 0, 0); errno != 0 {
		return fmt.Errorf("loading Landlock rules: %w", errno)
	}
	return unix.Close(rules)
}

// supportedAccess returns the access rights that a version of Landlock supports.
func supportedAccess(version int) uint64 {
	access := uint64(accessHandled)
	if version < landlockTrunc {
		access &^= unix.LANDLOCK_ACCESS_FS_TRUNCATE
	}
	if version < landlockDevice {
		access &^= unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	}
	return access
}

func allowSystemDirs(rules int, handled uint64) error {
	dirs := []struct {
		path   string
		access uint64
	}{
		{"/", accessRead},
		{"/dev", accessWrite | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV},
		{"/dev/shm", accessAll},
		// /proc/self is different for each process. The kernel checks which
		// files in it a process may write.
		{"/proc", accessWrite},
		{agentinit.TmpDir, accessAll},
	}
	for _, dir := range dirs {
		if err := allow(rules, dir.path, dir.access&handled); err != nil {
			return err
		}
	}
	return nil
}

// allowMounts allows writing to the writable mounts, which must be mounted
// already.
func allowMounts(rules int, mounts []Mount) error {
	if rules < 0 {
		return nil
	}
	access := accessAll & supportedAccess(LandlockVersion())
	for _, m := range mounts {
		if !m.Writable {
			continue
		}
		if err := allow(rules, m.Target, access); err != nil {
			return err
		}
	}
	return nil
}

// allow adds a rule that allows access to path and all files below it.
func allow(rules int, path string, access uint64) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("allowing %s: %w", path, err)
	}
	defer unix.Close(fd)
	beneath := unix.LandlockPathBeneathAttr{Allowed_access: access, Parent_fd: int32(fd)}
	_, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(rules), unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&beneath)), 0, 0, 0)
	if errno != 0 {
		return fmt.Errorf("allowing %s: %w", path, errno)
	}
	return nil
}
