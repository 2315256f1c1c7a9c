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

// Config is what the driver needs from the server.
type Config struct {
	StateDir     string
	Instance     string
	Logger       *slog.Logger
	Private      []string
	UIDBase      uint32
	DiskInterval time.Duration
	TrustBundle  string
}

// SecondUIDBase is for a second driver of a server.
const SecondUIDBase = 0

// Driver exists on Linux only.
type Driver struct{}

// MaybeInit does nothing here.
func MaybeInit() {}

// New fails: there are no namespaces here.
func New(Config) (*Driver, error) {
	return nil, fmt.Errorf("%w: namespaces need Linux on amd64 or arm64, this is %s on %s", sandbox.ErrUnavailable, runtime.GOOS, runtime.GOARCH)
}

// Name is "namespace".
func (*Driver) Name() string { return "namespace" }

// Probe reports that nothing is available.
func (d *Driver) Probe(context.Context) sandbox.Report {
	_, err := New(Config{})
	return sandbox.Report{Driver: d.Name(), Notes: []string{err.Error()}}
}

// Prepare fails.
func (*Driver) Prepare(context.Context, sandbox.Spec) (sandbox.Sandbox, error) {
	_, err := New(Config{})
	return nil, err
}

// Sweep has nothing to do.
func (*Driver) Sweep(context.Context) error { return nil }

// Close has nothing to do.
func (*Driver) Close() error { return nil }
