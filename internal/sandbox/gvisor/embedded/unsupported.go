//go:build !linux || (!amd64 && !arm64)

package embedded

// MaybeRunsc does nothing here: gVisor runs on Linux.
func MaybeRunsc() {}
