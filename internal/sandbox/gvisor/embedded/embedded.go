//go:build linux && (amd64 || arm64)

package embedded

import (
	"os"
	"path/filepath"
	"strings"

	"gvisor.dev/gvisor/runsc/cli/maincli"
)

// MaybeRunsc runs the process as runsc if it was started under a name of runsc; it
// then does not return. It must be the first call in main.
func MaybeRunsc() {
	if len(os.Args) == 0 {
		return
	}
	// Runsc starts itself again with an argv[0] that begins with "runsc". Only for
	// its subcommand umount, argv[0] is "/proc/self/exe".
	helper := len(os.Args) > 1 && os.Args[0] == "/proc/self/exe" && os.Args[1] == "umount"
	if helper || strings.HasPrefix(filepath.Base(os.Args[0]), "runsc") {
		useFilters()
		maincli.Main()
		os.Exit(0)
	}
}
