//go:build unix

package localfs

import (
	"fmt"
	"os"
	"syscall"
)

// lock marks a temporary file as in use by a living process, or fails when
// another has done so. Closing the file, or dying, ends it.
func lock(f *os.File) error {
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return fmt.Errorf("locking a temporary file: %w", err)
	}
	return nil
}
