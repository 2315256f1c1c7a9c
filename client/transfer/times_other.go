//go:build !unix

package transfer

import (
	"os"
	"path/filepath"
	"time"
)

// setTimes sets the modification time of name in dir. It does not change links,
// because there is no call that does not follow them.
func setTimes(dir *os.File, name string, at time.Time) error {
	full := filepath.Join(dir.Name(), name)
	info, err := os.Lstat(full)
	if err != nil || info.Mode()&os.ModeSymlink != 0 {
		return err
	}
	return os.Chtimes(full, at, at)
}
