//go:build !linux

package sandbox

import "os"

// Remove removes a file or folder.
func Remove(path string) error { return os.RemoveAll(path) }
