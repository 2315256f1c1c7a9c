//go:build !linux

package pgtest

import "syscall"

func findOwner() (owner, error) { return owner{}, nil }

// attributes returns nil: parent death signals exist only on Linux. Elsewhere, a
// server survives a test binary that is killed.
func (o owner) attributes() *syscall.SysProcAttr { return nil }
