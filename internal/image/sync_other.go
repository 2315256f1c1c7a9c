//go:build !linux

package image

// bootID is unknown on this platform.
func bootID() string { return "" }

func syncAll(string) error { return nil }
