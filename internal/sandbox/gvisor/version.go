package gvisor

import "debug/buildinfo"

// module is the path of gVisor's Go module.
const module = "gvisor.dev/gvisor"

const unknown = "of unknown version"

// version returns the version of gVisor in a binary.
func version(program string) string {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return unknown
	}
	if info.Main.Path == module {
		return info.Main.Version
	}
	for _, m := range info.Deps {
		if m.Path == module {
			return m.Version
		}
	}
	return unknown
}
