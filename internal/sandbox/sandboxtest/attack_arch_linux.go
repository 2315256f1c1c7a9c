//go:build !amd64

package sandboxtest

// machineAttempts is empty: other architectures need their own programs.
func machineAttempts() []attempt { return nil }
