//go:build linux && (amd64 || arm64)

package docker_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/stint-dev/stint/internal/sandbox"
	"github.com/stint-dev/stint/internal/sandbox/docker"
	"github.com/stint-dev/stint/internal/sandbox/docker/dockertest"
	"github.com/stint-dev/stint/internal/sandbox/sandboxtest"
)

// What the tests and the processes that they start share.
const (
	hostEnv   = "STINT_DOCKERTEST_HOST"
	binaryEnv = "STINT_DOCKERTEST_BINARY"
)

// daemon is the tests' own.
var daemon *dockertest.Daemon

func TestMain(m *testing.M) {
	sandboxtest.Init(newDriver)
	stop, err := setUp()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	// What runs by now is the daemon's.
	goleak.VerifyTestMain(m, goleak.IgnoreCurrent(), goleak.Cleanup(func(code int) {
		if code != 0 {
			fmt.Fprintf(os.Stderr, "the daemon said:\n%s\n", daemon.Log())
		}
		if err := stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
		os.Exit(code)
	}))
}

func setUp() (stop func() error, err error) {
	dir, err := os.MkdirTemp("", "stint-guest-")
	if err != nil {
		return nil, err
	}
	guest, err := dockertest.Guest(context.Background(), dir)
	if err == nil {
		daemon, err = dockertest.Start(context.Background())
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	stop = func() error { return errors.Join(daemon.Stop(), os.RemoveAll(dir)) }
	if err := errors.Join(os.Setenv(hostEnv, daemon.Host()), os.Setenv(binaryEnv, guest)); err != nil {
		return nil, errors.Join(err, stop())
	}
	return stop, nil
}

func config(stateDir string) docker.Config {
	return docker.Config{StateDir: stateDir, Host: os.Getenv(hostEnv), Binary: os.Getenv(binaryEnv), DiskInterval: 20 * time.Millisecond}
}

func newDriver(stateDir string) (sandbox.Driver, error) { return docker.New(config(stateDir)) }

func TestSuite(t *testing.T) {
	sandboxtest.Run(t, sandboxtest.Harness{
		New: newDriver, Isolates: true, Network: true, Images: true, Overlay: true, OneUser: true, Marks: []string{".dockerenv"},
		Limits: sandbox.Enforced{CPU: true, Memory: true, Pids: true, Disk: true},
	})
}
