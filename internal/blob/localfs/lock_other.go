//go:build !unix

package localfs

import "os"

// lock does nothing: on other systems, open files cannot be removed.
func lock(*os.File) error { return nil }
