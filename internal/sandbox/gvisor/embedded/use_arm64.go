//go:build linux

package embedded

// useFilters does nothing: on arm64 each sandbox computes its filters.
func useFilters() {}
