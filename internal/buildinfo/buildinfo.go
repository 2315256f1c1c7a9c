// Package buildinfo describes the build of the running program.
package buildinfo

import "runtime/debug"

// Version returns the version of the program, or "(devel)" if it is unknown.
func Version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}
