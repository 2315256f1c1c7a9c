package fake_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/stint-dev/stint/internal/sandbox"
	"github.com/stint-dev/stint/internal/sandbox/sandboxtest"
	"github.com/stint-dev/stint/internal/sandbox/sandboxtest/fake"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// runTestProgram runs one of the programs of package sandboxtest as a function in this
// process.
func runTestProgram(ctx context.Context, p *fake.Proc) sandbox.Exit {
	code := sandboxtest.RunProgram(sandboxtest.Program{
		Argv: p.Command.Argv, Env: p.Command.Env, Dir: p.Command.Dir,
		Stdin: p.Stdin, Stdout: p.Stdout, Stderr: p.Stderr,
		Term: p.Term, Done: ctx.Done(),
		Path: func(inside string) string {
			host, err := p.Host(inside)
			if err != nil {
				return inside
			}
			return host
		},
	})
	if ctx.Err() != nil {
		return sandbox.Exit{Code: 137, Signal: 9}
	}
	return sandbox.Exit{Code: code}
}

func TestSuite(t *testing.T) {
	sandboxtest.Run(t, sandboxtest.Harness{New: func(string) (sandbox.Driver, error) {
		d := fake.New(runTestProgram)
		d.OnStart = func(_ context.Context, _ sandbox.Spec, c sandbox.Command) error {
			if !strings.HasSuffix(c.Argv[0], "stint-testprogram") {
				return &sandbox.Error{Message: "There is no such program."}
			}
			return nil
		}
		return d, nil
	}})
}

func TestProc(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	spec := sandbox.Spec{
		ID: "run_1", Home: filepath.Join(dir, "home"), Workspace: filepath.Join(dir, "ws"),
		Mounts: []sandbox.Mount{{Source: filepath.Join(dir, "data"), Target: "/workspace/data"}},
		Run:    filepath.Join(dir, "run"),
	}
	got := map[string]string{}
	d := fake.New(func(_ context.Context, p *fake.Proc) sandbox.Exit {
		for _, path := range []string{"/workspace", "/workspace/x", "/workspace/data/y", "/home/agent/.z", "/etc/passwd", "/run/stint/prompt"} {
			host, err := p.Host(path)
			if err != nil {
				host = "none"
			}
			got[path], _ = strings.CutPrefix(host, dir)
		}
		p.SetUsage(sandbox.Usage{Memory: 42})
		return sandbox.Exit{Code: 9}
	})
	b, err := d.Prepare(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Start(t.Context(), sandbox.Command{Argv: []string{"x"}}); err != nil {
		t.Fatal(err)
	}
	exit, err := b.Wait(t.Context())
	if err != nil || exit != (sandbox.Exit{Code: 9, Cause: sandbox.Exited}) {
		t.Errorf("Wait: %+v, %v", exit, err)
	}
	want := map[string]string{
		"/workspace": "/ws", "/workspace/x": "/ws/x", "/workspace/data/y": "/data/y", "/home/agent/.z": "/home/.z", "/etc/passwd": "none", "/run/stint/prompt": "/run/prompt",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("host paths (-want +got):\n%s", diff)
	}
	if u, err := b.Usage(t.Context()); err != nil || u.Memory != 42 {
		t.Errorf("Usage: %+v, %v", u, err)
	}
	if diff := cmp.Diff([]string{"run_1"}, d.Live()); diff != "" {
		t.Errorf("Live before Close (-want +got):\n%s", diff)
	}
	if err := b.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{}, d.Live()); diff != "" {
		t.Errorf("Live after Close (-want +got):\n%s", diff)
	}
}

func TestHooks(t *testing.T) {
	t.Parallel()
	d := fake.New(func(context.Context, *fake.Proc) sandbox.Exit { return sandbox.Exit{} })
	d.OnPrepare = func(context.Context, sandbox.Spec) error { return os.ErrPermission }
	if _, err := d.Prepare(t.Context(), sandbox.Spec{ID: "x", Home: "/h", Workspace: "/w"}); !errors.Is(err, os.ErrPermission) {
		t.Errorf("Prepare: %v, want the hook's error", err)
	}
	if err := d.Sweep(t.Context()); err != nil || d.Swept() != 1 {
		t.Errorf("Sweep: %v, %d sweeps counted, want 1", err, d.Swept())
	}
}
