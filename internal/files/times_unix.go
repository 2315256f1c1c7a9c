//go:build unix

package files

import (
	"os"

	"golang.org/x/sys/unix"
)

// setTimes gives name in dir, which may be a link, the time of e.
func setTimes(dir *os.File, name string, e *entry) error {
	t, err := unix.TimeToTimespec(e.time())
	if err != nil {
		return err
	}
	err = unix.UtimesNanoAt(int(dir.Fd()), name, []unix.Timespec{t, t}, unix.AT_SYMLINK_NOFOLLOW)
	if err != nil {
		return os.NewSyscallError("utimensat", err)
	}
	return nil
}
