//go:build !linux

package s3test

import "syscall"

// attributes returns nil: s3test sets a parent death signal only on Linux. On other
// systems, the server survives a test binary that is killed.
func attributes() *syscall.SysProcAttr { return nil }
