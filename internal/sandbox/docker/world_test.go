//go:build linux && (amd64 || arm64)

package docker_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/moby/moby/client"

	"github.com/stint-dev/stint/internal/sandbox"
	"github.com/stint-dev/stint/internal/sandbox/docker"
)

// world is a driver and folders for a benchmark or a test.
type world struct {
	testing.TB
	driver *docker.Driver
	config docker.Config
	n      int
}

func newWorld(tb testing.TB, change func(*docker.Config)) *world {
	tb.Helper()
	w := &world{TB: tb, config: config(filepath.Join(tb.TempDir(), "state"))}
	if change != nil {
		change(&w.config)
	}
	d, err := docker.New(w.config)
	if err != nil {
		tb.Fatal(err)
	}
	w.driver = d
	tb.Cleanup(func() {
		if err := d.Close(); err != nil {
			tb.Error(err)
		}
	})
	return w
}

func (w *world) spec() sandbox.Spec {
	w.Helper()
	w.n++
	base := w.TempDir()
	s := sandbox.Spec{
		ID:   fmt.Sprintf("run_%d", w.n),
		Home: filepath.Join(base, "home"), Workspace: filepath.Join(base, "workspace"), Scratch: filepath.Join(base, "scratch"),
		Resources: sandbox.Resources{CPU: 2, Memory: 1 << 30, Pids: 256, Disk: 1 << 30},
	}
	for _, dir := range []string{s.Home, s.Workspace, s.Scratch} {
		w.must(os.Mkdir(dir, 0o700))
	}
	return s
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) prepare(s sandbox.Spec) sandbox.Sandbox {
	w.Helper()
	b, err := w.driver.Prepare(context.Background(), s)
	w.must(err)
	return b
}

func (w *world) close(b sandbox.Sandbox) {
	w.Helper()
	w.must(b.Close(context.Background()))
}

// run runs a command to its end.
func (w *world) run(b sandbox.Sandbox, argv ...string) (string, sandbox.Exit) {
	w.Helper()
	var out strings.Builder
	w.must(b.Start(context.Background(), sandbox.Command{Argv: argv, Env: []string{"PATH=/bin:/usr/bin"}, Stdout: &out, Stderr: &out}))
	e, err := b.Wait(context.Background())
	w.must(err)
	return out.String(), e
}

// shell is what a script says in a new sandbox.
func (w *world) shell(s sandbox.Spec, script string) string {
	w.Helper()
	b := w.prepare(s)
	defer w.close(b)
	out, _ := w.run(b, "sh", "-c", script)
	return out
}

// api is the daemon seen by somebody else.
func (w *world) api() *client.Client {
	w.Helper()
	c, err := client.New(client.WithHost(w.config.Host))
	w.must(err)
	w.Cleanup(func() { c.Close() })
	return c
}
