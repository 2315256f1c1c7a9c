//go:build !linux

package pgtest

import "syscall"

func findOwner() (owner, error) { return owner{}, nil }

// attributes: only Linux lets a child learn of its parent's death, so here a
// server survives a test binary that is killed.
func (o owner) attributes() *syscall.SysProcAttr { return nil }
