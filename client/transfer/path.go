package transfer

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/stint-dev/stint/internal/files/format"
	"github.com/stint-dev/stint/internal/localdir"
)

var errOutside = errors.New("it would be outside the folder")

// leaves reports whether e is a symbolic link to a target outside of the local folder.
// Agents create such links, for example to programs of their sandbox.
func leaves(e *format.Entry) bool {
	return e.Kind == format.Symlink && localdir.Leaves(e.Path, e.Target)
}

// checkEntry returns an error if the path of e leaves the local folder.
// treewire.TreeReader makes all other checks.
func checkEntry(e *format.Entry) error {
	if !filepath.IsLocal(filepath.FromSlash(e.Path)) {
		return fmt.Errorf("'%s': %w", e.Path, errOutside)
	}
	return nil
}
