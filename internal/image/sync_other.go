//go:build !linux

package image

// bootID returns "", because the boot ID is unknown on this platform.
func bootID() string { return "" }

func syncAll(string) error { return nil }
