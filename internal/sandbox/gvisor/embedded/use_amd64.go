//go:build linux

package embedded

import (
	"runtime/debug"
	_ "unsafe" // for linkname

	"gvisor.dev/gvisor/pkg/seccomp/precompiledseccomp"
	boot "gvisor.dev/gvisor/runsc/boot/filter"
	gofer "gvisor.dev/gvisor/runsc/fsgofer/filter"
)

//go:generate go run ../internal/filtergen

// The tables of precomputed system call filters. gVisor's own builds fill them, but
// its Go module leaves them empty and does not export them. Without precomputed
// filters, computing them takes a third of the time of a sandbox's start.
//
//go:linkname kernelFilters gvisor.dev/gvisor/runsc/boot/filter.precompiledPrograms
var kernelFilters map[string]precompiledseccomp.Program

//go:linkname filesFilters gvisor.dev/gvisor/runsc/fsgofer/filter.precompiledPrograms
var filesFilters map[string]precompiledseccomp.Program

// useFilters adds the precomputed filters to the tables if they were generated for
// the linked version of gVisor. Otherwise gVisor computes its filters.
func useFilters() {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return
	}
	for _, m := range info.Deps {
		if m.Path == "gvisor.dev/gvisor" && m.Version == filtersVersion && m.Replace == nil {
			boot.ListPrecompiled() // allocates the tables
			gofer.ListPrecompiled()
			kernelFilters[kernelFilter.Name] = kernelFilter
			filesFilters[filesFilter.Name] = filesFilter
			return
		}
	}
}
