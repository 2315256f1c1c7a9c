package egress

import (
	"context"
	"errors"
	"net"
	"os"
)

// networkError is an error for the run's log. Unlike the errors of package net, its
// text does not contain the addresses of this host and of its resolvers.
type networkError struct{ cause error }

// Error returns the reason without addresses.
func (e networkError) Error() string { return reason(e.cause) }

// Unwrap returns the complete error.
func (e networkError) Unwrap() error { return e.cause }

func reason(err error) string {
	if e, ok := errors.AsType[*net.DNSError](err); ok {
		switch {
		case e.IsNotFound:
			return "no such host"
		case e.IsTimeout:
			return "the lookup took too long"
		}
		return "the lookup failed"
	}
	if e, ok := errors.AsType[*net.OpError](err); ok {
		return reason(e.Err)
	}
	if e, ok := errors.AsType[*os.SyscallError](err); ok {
		return e.Err.Error()
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) {
		return "no answer in time"
	}
	return err.Error()
}
