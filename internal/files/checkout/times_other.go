//go:build !unix

package checkout

import (
	"os"
	"path/filepath"

	"github.com/stint-dev/stint/internal/files/format"
)

// setTimes sets the time of name in dir to that of e. Links keep their own,
// because no call changes them without following them.
func setTimes(dir *os.File, name string, e *format.Entry) error {
	if e.Kind == format.Symlink {
		return nil
	}
	return os.Chtimes(filepath.Join(dir.Name(), name), e.Time(), e.Time())
}
