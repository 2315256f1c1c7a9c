//go:build !linux || (!amd64 && !arm64)

package docker

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
	Host         string
	Runtime      string
	Binary       string
	TrustBundle  string
	DiskInterval time.Duration
}

// DefaultHost is where a daemon of the host listens.
const DefaultHost = "unix:///var/run/docker.sock"

// Driver exists on Linux only.
type Driver struct{}

// New fails: containers here do not share this system.
func New(Config) (*Driver, error) {
	return nil, fmt.Errorf("%w: containers of this host need Linux on amd64 or arm64, this is %s on %s", sandbox.ErrUnavailable, runtime.GOOS, runtime.GOARCH)
}

// Name is "docker".
func (*Driver) Name() string { return "docker" }

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
