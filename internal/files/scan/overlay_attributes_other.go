//go:build !linux

package scan

import (
	"io/fs"
	"os"
)

// Overlays exist on Linux alone, and so do their marks.

func isWhiteout(fs.FileInfo) bool { return false }

func overlayMarks(*os.File) (overlayFlags, error) { return overlayFlags{}, nil }

func hasOverlayAttributes(*os.File) (bool, error) { return false, nil }
