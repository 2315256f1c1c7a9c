//go:build !linux

package pgtest

import "syscall"

func findOwner() (owner, error) { return owner{}, nil }

// attributes returns nil: pgtest sets a parent death signal only on Linux. On other
// systems, a server survives a test binary that is killed.
func (o owner) attributes() *syscall.SysProcAttr { return nil }
