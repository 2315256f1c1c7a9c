//go:build !unix

package transfer

import (
	"os"
	"path/filepath"
	"time"
)

// setTimes sets the access and modification times of name in dir. It leaves links
// unchanged, because os.Chtimes would change the file that a link points to.
func setTimes(dir *os.File, name string, at time.Time) error {
	full := filepath.Join(dir.Name(), name)
	info, err := os.Lstat(full)
	if err != nil || info.Mode()&os.ModeSymlink != 0 {
		return err
	}
	return os.Chtimes(full, at, at)
}
