//go:build unix

package transfer

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// setTimes sets the modification time of name in dir, which can be a link.
func setTimes(dir *os.File, name string, at time.Time) error {
	t, err := unix.TimeToTimespec(at)
	if err != nil {
		return err
	}
	return os.NewSyscallError("utimensat", unix.UtimesNanoAt(int(dir.Fd()), name, []unix.Timespec{t, t}, unix.AT_SYMLINK_NOFOLLOW))
}
