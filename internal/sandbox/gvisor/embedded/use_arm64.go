//go:build linux

package embedded

// useFilters has none: on this machine each sandbox computes its own.
func useFilters() {}
