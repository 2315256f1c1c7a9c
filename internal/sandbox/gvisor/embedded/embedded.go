//go:build linux && (amd64 || arm64)

package embedded

import (
	"os"
	"path/filepath"
	"strings"

	"gvisor.dev/gvisor/runsc/cli/maincli"
)

// MaybeRunsc turns the process into a part of gVisor if it was started as one,
// and then never returns. Call it first thing in main.
func MaybeRunsc() {
	if len(os.Args) == 0 {
		return
	}
	// runsc starts itself under names of its own, and one helper under the path
	// of its binary.
	helper := len(os.Args) > 1 && os.Args[0] == "/proc/self/exe" && os.Args[1] == "umount"
	if helper || strings.HasPrefix(filepath.Base(os.Args[0]), "runsc") {
		useFilters()
		maincli.Main()
		os.Exit(0)
	}
}
