package gvisor

import "debug/buildinfo"

// module is the path of gVisor's Go module.
const module = "gvisor.dev/gvisor"

const unknown = "of unknown version"

// version returns the version of gVisor that is linked into a Go binary, or unknown.
func version(program string) string {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return unknown
	}
	for _, m := range append(info.Deps, &info.Main) {
		if m.Path == module {
			return m.Version
		}
	}
	return unknown
}
