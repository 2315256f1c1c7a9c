//go:build !unix

package transfer

import (
	"os"
	"path/filepath"
	"time"
)

// setTimes gives name in dir a modification time. Links keep their own: there
// is no call that does not follow them.
func setTimes(dir *os.File, name string, at time.Time) error {
	full := filepath.Join(dir.Name(), name)
	info, err := os.Lstat(full)
	if err != nil || info.Mode()&os.ModeSymlink != 0 {
		return err
	}
	return os.Chtimes(full, at, at)
}
