package transfer

import (
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"strings"

	"github.com/stint-dev/stint/internal/files/treewire"
)

var errOutside = errors.New("it would lie outside of the folder")

// checkEntry refuses what must not be written, beyond what reading a tree
// refuses.
func checkEntry(e *treewire.Entry) error {
	if !filepath.IsLocal(filepath.FromSlash(e.Path)) {
		return fmt.Errorf("'%s': %w", e.Path, errOutside)
	}
	if e.Kind == treewire.Link && leaves(e.Path, e.Target) {
		return fmt.Errorf("the link '%s' to '%s': %w", e.Path, e.Target, errOutside)
	}
	return nil
}

// leaves reports whether a link at name leads out of the root.
func leaves(name, target string) bool {
	if path.IsAbs(target) {
		return true
	}
	to := path.Join(path.Dir(name), target)
	return to == ".." || strings.HasPrefix(to, "../")
}
