//go:build !linux || (!amd64 && !arm64)

package namespace

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"time"

	"github.com/stint-dev/stint/internal/sandbox"
)

// Config contains the driver's settings.
type Config struct {
	StateDir     string
	Instance     string
	Logger       *slog.Logger
	Private      []string
	UIDBase      uint32
	DiskInterval time.Duration
	TrustBundle  string
}

// SecondUIDBase is the UIDBase of a server's second driver.
const SecondUIDBase = 0

// Driver is not available on this platform.
type Driver struct{}

// MaybeInit does nothing on this platform.
func MaybeInit() {}

// New returns an error on this platform.
func New(Config) (*Driver, error) {
	return nil, fmt.Errorf("%w: namespaces need Linux on amd64 or arm64, this is %s on %s", sandbox.ErrUnavailable, runtime.GOOS, runtime.GOARCH)
}

// Name returns "namespace".
func (*Driver) Name() string { return "namespace" }

// Probe reports that nothing is available.
func (d *Driver) Probe(context.Context) sandbox.Report {
	_, err := New(Config{})
	return sandbox.Report{Driver: d.Name(), Notes: []string{err.Error()}}
}

// Prepare returns an error.
func (*Driver) Prepare(context.Context, sandbox.Spec) (sandbox.Sandbox, error) {
	_, err := New(Config{})
	return nil, err
}

// Sweep does nothing.
func (*Driver) Sweep(context.Context) error { return nil }

// Close does nothing.
func (*Driver) Close() error { return nil }
