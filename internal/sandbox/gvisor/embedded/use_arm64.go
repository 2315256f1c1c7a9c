//go:build linux

package embedded

// useFilters does nothing: on arm64 gVisor computes its filters for each sandbox.
func useFilters() {}
