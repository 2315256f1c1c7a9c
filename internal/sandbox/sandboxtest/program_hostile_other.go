//go:build !linux

package sandboxtest

// processesWithMarker needs Linux's proc; isolating drivers exist only there.
func processesWithMarker(string) []int { return nil }

func stopDescendants(int) {}
