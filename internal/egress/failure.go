package egress

import (
	"context"
	"errors"
	"net"
	"os"
)

// failure is why something did not work, in words for the run's log: without
// the addresses of this host and of its resolvers, which errors of the network
// bear.
type failure struct{ cause error }

// Error tells the reason alone.
func (f failure) Error() string { return reason(f.cause) }

// Unwrap gives the whole error.
func (f failure) Unwrap() error { return f.cause }

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
