//go:build unix

package localfs

import (
	"fmt"
	"os"
	"syscall"
)

// lock marks a temporary file as in use. It fails if the file is already locked through
// another open file, in this or another process. The lock ends when f is closed or the
// process ends.
func lock(f *os.File) error {
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return fmt.Errorf("locking a temporary file: %w", err)
	}
	return nil
}
