//go:build !linux || (!amd64 && !arm64)

package gvisor

import (
	"fmt"
	"runtime"

	"github.com/stint-dev/stint/internal/sandbox"
	"github.com/stint-dev/stint/internal/sandbox/namespace"
)

// Config contains the driver's settings.
type Config struct {
	namespace.Config
	Binary string
	Runsc  string
}

// Driver is not available on this platform.
type Driver struct{ *namespace.Driver }

// New returns an error: gVisor runs on Linux only.
func New(Config) (*Driver, error) {
	return nil, fmt.Errorf("%w: gVisor needs Linux on amd64 or arm64, this is %s on %s", sandbox.ErrUnavailable, runtime.GOOS, runtime.GOARCH)
}
