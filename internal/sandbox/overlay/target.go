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

// ErrNotFolder says that a path leads over what is no folder.
var ErrNotFolder = errors.New("it leads over what is no folder")

// MakeTarget sees to it that a mount inside an overlay has a folder to lie on, before
// the overlay is mounted: it makes the folders of a relative path that are
// missing in all layers. It follows no link. Without an upper folder it makes
// nothing, and fails with fs.ErrNotExist.
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
		return fmt.Errorf("making %s: %w", rel, fs.ErrNotExist)
	}
	for _, l := range levels {
		if l.top == roots[0] {
			continue
		}
		if err := makeDirLike(roots[0], l.path, l.info); err != nil {
			return fmt.Errorf("making %s: %w", l.path, err)
		}
	}
	return nil
}

// level is what the overlay shows at the beginning of a path.
type level struct {
	path string
	info fs.FileInfo // a folder; nil is nothing
	top  *os.Root    // the layer that it comes from
}

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

// shownAt gives what the overlay shows at a path, nil for nothing, and the roots
// of those that hold a part of it.
func lookUp(roots []*os.Root, path string) (shown fs.FileInfo, holding []*os.Root, err error) {
	for _, r := range roots {
		st, err := r.Lstat(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, nil, fmt.Errorf("looking for %s: %w", path, err)
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
		return false, fmt.Errorf("reading what %s hides: %w", path, err)
	}
	return string(value[:n]) == "y", nil
}

// makeLike makes a folder in the upper layer. One that stands for another, which
// it adds to, is as that one was.
func makeDirLike(upper *os.Root, path string, like fs.FileInfo) error {
	if err := upper.Mkdir(path, 0o755); err != nil {
		return err
	}
	if like == nil {
		return nil
	}
	return errors.Join(upper.Chmod(path, like.Mode().Perm()), upper.Chtimes(path, like.ModTime(), like.ModTime()))
}
