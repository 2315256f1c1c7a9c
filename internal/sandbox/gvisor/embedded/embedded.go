//go:build linux && (amd64 || arm64)

package embedded

import (
	"os"
	"path/filepath"
	"strings"

	"gvisor.dev/gvisor/runsc/cli/maincli"
)

// MaybeRunsc runs the process as a part of gVisor if it was started as one, and
// then does not return. It must be called first in main.
func MaybeRunsc() {
	if len(os.Args) == 0 {
		return
	}
	// Runsc starts itself under several names, and one helper under the path of
	// its binary.
	helper := len(os.Args) > 1 && os.Args[0] == "/proc/self/exe" && os.Args[1] == "umount"
	if helper || strings.HasPrefix(filepath.Base(os.Args[0]), "runsc") {
		useFilters()
		maincli.Main()
		os.Exit(0)
	}
}
