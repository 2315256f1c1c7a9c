package transfer

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/stint-dev/stint/internal/files/format"
	"github.com/stint-dev/stint/internal/localdir"
)

var errOutside = errors.New("it would be outside the folder")

// checkEntry returns an error if the path of e, or the target of a symbolic link,
// leaves the local folder. treewire.TreeReader makes all other checks.
func checkEntry(e *format.Entry) error {
	if !filepath.IsLocal(filepath.FromSlash(e.Path)) {
		return fmt.Errorf("'%s': %w", e.Path, errOutside)
	}
	if e.Kind == format.Symlink && localdir.Leaves(e.Path, e.Target) {
		return fmt.Errorf("the link '%s' to '%s': %w", e.Path, e.Target, errOutside)
	}
	return nil
}
