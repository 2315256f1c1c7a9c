//go:build !linux || (!amd64 && !arm64)

package embedded

// MaybeRunsc does nothing: gVisor runs on Linux only.
func MaybeRunsc() {}
