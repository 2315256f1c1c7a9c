//go:build linux && (amd64 || arm64)

package setup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/stint-dev/stint/internal/sandbox/overlay"
)

// openHostDir opens a folder by its path. While the host's root is still the root,
// it is a folder of the host.
func openHostDir(path string) (int, error) {
	return unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
}

// openOldRootDir opens a folder of the host's root after pivotRoot, while the host's
// root is still mounted in hostDir.
func openOldRootDir(path string) (int, error) {
	host, err := openHostDir("/" + hostDir)
	if err != nil {
		return -1, err
	}
	defer unix.Close(host)
	return openBeneath(host, path, unix.O_DIRECTORY, 0)
}

// overlayTree returns an overlay as a detached mount.
func overlayTree(m Mount) (int, error) {
	f, opened, err := openLayers(m, openHostDir)
	defer closeAll(opened)
	if err != nil {
		return -1, err
	}
	return f.Mount(m.Layers[0])
}

// openLayers opens the folders of an overlay with open. The caller closes opened,
// even after an error.
func openLayers(m Mount, open func(path string) (int, error)) (f overlay.Folders, opened []int, err error) {
	paths := m.Layers
	if m.Upper != "" {
		paths = append(slices.Clone(paths), m.Upper, overlay.WorkDir(m.Upper))
	}
	for _, p := range paths {
		fd, err := open(p)
		if err != nil {
			return f, opened, fmt.Errorf("opening a layer: %w", err)
		}
		opened = append(opened, fd)
	}
	n := len(m.Layers)
	f = overlay.Folders{Lower: opened[:n], Upper: -1, Work: -1}
	if m.Upper != "" {
		f.Upper, f.Work = opened[n], opened[n+1]
	}
	return f, opened, nil
}

// stageDir is the folder on which the overlays of an attachment are mounted, one over
// another, until all of them have been mounted successfully.
const stageDir = ".stage"

// stageOverlay mounts an overlay of folders of the host's root on stageDir. It
// returns a descriptor with which the overlay can be moved to its target.
func stageOverlay(m Mount) (int, error) {
	f, opened, err := openLayers(m, openOldRootDir)
	defer closeAll(opened)
	if err != nil {
		return -1, err
	}
	at := "/" + stageDir
	if err := os.Mkdir(at, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return -1, err
	}
	if err := f.MountAt(at); err != nil {
		return -1, err
	}
	return openHostDir(at)
}

// unstageOverlays unmounts the count overlays that are still mounted on stageDir, and
// removes stageDir.
func unstageOverlays(count int) error {
	for range count {
		if err := unix.Unmount("/"+stageDir, unix.MNT_DETACH); err != nil {
			return fmt.Errorf("removing staged mounts: %w", err)
		}
	}
	if err := os.Remove("/" + stageDir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing staged mounts: %w", err)
	}
	return nil
}
