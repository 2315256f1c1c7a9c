//go:build !amd64

package sandboxtest

// machineAttempts returns no attempts: only the attempts of amd64 are implemented.
func machineAttempts() []attempt { return nil }
