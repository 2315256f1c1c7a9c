//go:build !linux

package sandbox

import "os"

// Remove removes a file or folder. No agents run here, so it holds no traps.
func Remove(path string) error { return os.RemoveAll(path) }
