//go:build !unix

package index

import "os"

// lockFile does nothing: the system has no such locks.
func lockFile(*os.File) error { return nil }
