//go:build !linux

package sandboxtest

// processesWithMarker needs Linux's proc; isolating drivers exist only there.
func marked(string) []int { return nil }

func stopDescendants(int) {}
