//go:build !unix

package checkout

import (
	"os"
	"path/filepath"

	"github.com/stint-dev/stint/internal/files/format"
)

// setTimes gives name in dir the time of e. Links keep their own: there is no
// call that does not follow them.
func setTimes(dir *os.File, name string, e *format.Entry) error {
	if e.Kind == format.Symlink {
		return nil
	}
	return os.Chtimes(filepath.Join(dir.Name(), name), e.Time(), e.Time())
}
