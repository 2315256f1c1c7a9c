//go:build !linux

package scan

import (
	"io/fs"
	"os"
)

// Overlays and their attributes exist only on Linux.

func isWhiteout(fs.FileInfo) bool { return false }

func overlayMarks(*os.File) (overlayFlags, error) { return overlayFlags{}, nil }

func hasOverlayAttributes(*os.File) (bool, error) { return false, nil }
