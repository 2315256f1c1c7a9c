//go:build !unix

package files

import (
	"os"
	"path/filepath"
)

// setTimes gives name in dir the time of e. Links keep their own: there is no
// call that does not follow them.
func setTimes(dir *os.File, name string, e *entry) error {
	if e.kind == symlink {
		return nil
	}
	return os.Chtimes(filepath.Join(dir.Name(), name), e.time(), e.time())
}
