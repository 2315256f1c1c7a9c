package engine

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// removeTree removes a folder that an agent may have filled: folders without
// the owner's permissions are given them first. It follows no link.
func removeTree(dir string) error {
	if err := os.RemoveAll(dir); err == nil {
		return nil
	}
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil && !errors.Is(err, fs.ErrPermission) {
			return err
		}
		if d.IsDir() {
			return os.Chmod(p, 0o700) //nolint:gosec // a folder that is about to be removed
		}
		return nil
	})
	return errors.Join(err, os.RemoveAll(dir))
}
