//go:build !linux || (!amd64 && !arm64)

package app

// isVisibleInSandboxes returns false, because there are no sandboxes.
func isVisibleInSandboxes(string) bool { return false }
