package checkout

import (
	"os"

	"github.com/stint-dev/stint/internal/files/format"
	"golang.org/x/sys/unix"
)

// setTimes sets the access and modification times of the file name in dir to the
// modification time of e. It does not follow links.
func setTimes(dir *os.File, name string, e *format.Entry) error {
	t, err := unix.TimeToTimespec(e.Time())
	if err != nil {
		return err
	}
	err = unix.UtimesNanoAt(int(dir.Fd()), name, []unix.Timespec{t, t}, unix.AT_SYMLINK_NOFOLLOW)
	if err != nil {
		return os.NewSyscallError("utimensat", err)
	}
	return nil
}
