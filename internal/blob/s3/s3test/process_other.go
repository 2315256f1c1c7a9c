//go:build !linux

package s3test

import "syscall"

// attributes returns nil. Only Linux can kill a child process when its parent ends, so
// on other systems the server survives a test binary that is killed.
func attributes() *syscall.SysProcAttr { return nil }
