//go:build unix

package transfer

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// setTimes sets the access and modification times of name in dir. If name is a link,
// it sets the times of the link itself.
func setTimes(dir *os.File, name string, at time.Time) error {
	t, err := unix.TimeToTimespec(at)
	if err != nil {
		return err
	}
	return os.NewSyscallError("utimensat", unix.UtimesNanoAt(int(dir.Fd()), name, []unix.Timespec{t, t}, unix.AT_SYMLINK_NOFOLLOW))
}
