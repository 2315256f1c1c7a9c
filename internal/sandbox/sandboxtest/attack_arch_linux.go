//go:build !amd64

package sandboxtest

// machineAttempts are none: the other modes of other machines need programs of
// their own.
func machineAttempts() []attempt { return nil }
