//go:build !linux

package s3test

import "syscall"

// attributes: only Linux lets a child learn of its parent's death, so here a
// server survives a test binary that is killed.
func attributes() *syscall.SysProcAttr { return nil }
