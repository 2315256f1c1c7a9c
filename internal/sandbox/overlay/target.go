//go:build linux && (amd64 || arm64)

package overlay

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/stint-dev/stint/internal/sandbox/layout"
)

// ErrNotFolder is returned if an element of a target's path exists but is not a
// folder.
var ErrNotFolder = errors.New("a part of the path is not a folder")

// MakeTarget creates the target folder of a mount inside an overlay, before the
// overlay is mounted. rel is the target's path relative to the overlay. If the overlay
// already shows the folder, MakeTarget does nothing. Otherwise it creates the folder
// and its parents in upper. If upper is empty, the error wraps fs.ErrNotExist. MakeTarget
// does not follow symbolic links.
func MakeTarget(layers []string, upper, rel string) error {
	var roots []*os.Root
	defer func() {
		for _, r := range roots {
			r.Close()
		}
	}()
	if upper != "" {
		layers = append([]string{upper}, layers...)
	}
	for _, l := range layers {
		r, err := os.OpenRoot(l)
		if err != nil {
			return fmt.Errorf("opening layer: %w", err)
		}
		roots = append(roots, r)
	}
	levels, err := levelsOf(roots, rel)
	if err != nil || levels[len(levels)-1].info != nil {
		return err
	}
	if upper == "" {
		return fmt.Errorf("creating %s: %w", rel, fs.ErrNotExist)
	}
	for _, l := range levels {
		if l.top == roots[0] {
			continue
		}
		if err := makeDirLike(roots[0], l.path, l.info); err != nil {
			return fmt.Errorf("creating %s: %w", l.path, err)
		}
	}
	return nil
}

// level is a folder on the way to a target, as the overlay shows it.
type level struct {
	path string      // relative to the overlay
	info fs.FileInfo // nil if the folder does not exist
	top  *os.Root    // the topmost layer with the folder; nil if it does not exist
}

// levelsOf returns the levels of all prefixes of rel, the shortest first.
func levelsOf(roots []*os.Root, rel string) ([]level, error) {
	var levels []level
	path := ""
	for name := range strings.SplitSeq(rel, "/") {
		path = strings.TrimPrefix(path+"/"+name, "/")
		shown, holding, err := lookUp(roots, path)
		if err != nil {
			return nil, err
		}
		l := level{path: path, info: shown}
		if shown != nil {
			l.top = holding[0]
		}
		levels, roots = append(levels, l), holding
	}
	return levels, nil
}

// lookUp returns the folder that the overlay shows at a path, or nil if there is
// none, and the roots of the layers with a folder that is merged at this path, topmost
// first.
func lookUp(roots []*os.Root, path string) (shown fs.FileInfo, holding []*os.Root, err error) {
	for _, r := range roots {
		st, err := r.Lstat(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, nil, fmt.Errorf("reading %s: %w", path, err)
		}
		if !st.IsDir() {
			if shown == nil && !isWhiteout(st) {
				return nil, nil, fmt.Errorf("%s: %w", path, ErrNotFolder)
			}
			break
		}
		if shown == nil {
			shown = st
		}
		holding = append(holding, r)
		opaque, err := isOpaque(r, path)
		if err != nil {
			return nil, nil, err
		}
		if opaque {
			break
		}
	}
	return shown, holding, nil
}

func isWhiteout(st fs.FileInfo) bool {
	sys, ok := st.Sys().(*syscall.Stat_t)
	return ok && st.Mode()&fs.ModeCharDevice != 0 && sys.Rdev == 0
}

func isOpaque(r *os.Root, path string) (bool, error) {
	d, err := r.Open(path)
	if err != nil {
		return false, fmt.Errorf("opening %s: %w", path, err)
	}
	defer d.Close()
	value := make([]byte, 8)
	n, err := unix.Fgetxattr(int(d.Fd()), layout.OpaqueAttr, value)
	switch {
	case errors.Is(err, unix.ENODATA), errors.Is(err, unix.ENOTSUP), errors.Is(err, unix.ERANGE):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("reading the attributes of %s: %w", path, err)
	}
	return string(value[:n]) == "y", nil
}

// makeDirLike creates a folder in the upper layer. If like is not nil, it is the
// folder of a lower layer at the same path, and the new folder gets its permissions
// and modification time.
func makeDirLike(upper *os.Root, path string, like fs.FileInfo) error {
	if err := upper.Mkdir(path, 0o755); err != nil {
		return err
	}
	if like == nil {
		return nil
	}
	return errors.Join(upper.Chmod(path, like.Mode().Perm()), upper.Chtimes(path, like.ModTime(), like.ModTime()))
}
