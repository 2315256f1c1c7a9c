//go:build linux && (amd64 || arm64)

package agentcli_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/framework"
	"github.com/stint-dev/stint/internal/sandbox"
	"github.com/stint-dev/stint/internal/sandbox/namespace"
	"github.com/stint-dev/stint/internal/sandbox/rootfs"
	"github.com/stint-dev/stint/internal/worker/agentcli"
)

// asProgram is the argument with which the test binary prints "stint" and exits.
const asProgram = "print-name"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == asProgram {
		_, _ = os.Stdout.WriteString("stint\n")
		return
	}
	os.Exit(m.Run())
}

// TestProgramsStartInSandbox starts programs in real sandboxes. A sandbox gets the mounts
// of the program from Prepare or, if later is true, from Attach.
func TestProgramsStartInSandbox(t *testing.T) {
	w := newWorld(t)
	real := agentcli.New(agentcli.Config{
		Dir: w.at("data/programs"), Visible: rootfs.HostShows, Self: "/proc/self/exe", Frameworks: []framework.Info{claude}, Now: time.Now,
		Getenv: func(name string) string { return w.env[name] },
	})
	w.env["PATH"] = w.at("home/bin") + ":/usr/bin:/bin"
	w.file("home/bin/codex", "#!/bin/sh\n[ -w \"$0\" ] || echo codex\n")
	w.file("home/app/node_modules/other/words", "agent\n")
	w.file("home/app/node_modules/agent/cli", "#!/bin/sh\ncat \"${0%/*}/../other/words\"\n\"$CLAUDE_CODE_EXECUTABLE\"\n")
	w.link("home/bin/claude-agent", "../app/node_modules/agent/cli")
	w.file("home/bin/claude", "#!/usr/bin/env sh\necho claude 2.1.1\n")
	driver, err := namespace.New(namespace.Config{StateDir: w.at("state")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := driver.Close(); err != nil {
			t.Error(err)
		}
	})
	for name, c := range map[string]struct {
		of   framework.Info
		d    stint.Definition
		args []string
		want string
	}{
		"single file":         {codex, stint.Definition{}, nil, "codex\n"},
		"a package":           {acp, stint.Definition{Command: []string{"claude-agent"}}, nil, "agent\nclaude 2.1.1\n"},
		"own program":         {own, stint.Definition{}, []string{asProgram}, "stint\n"},
		"visible at its path": {framework.Info{Name: "x", Programs: []string{"uname"}}, stint.Definition{}, nil, "Linux\n"},
		"empty":               {framework.Info{Name: "command"}, stint.Definition{}, nil, ""},
	} {
		found, err := real.Find(t.Context(), c.of, &c.d)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if found.Program.Path == "" {
			continue
		}
		for _, later := range []bool{false, true} {
			if got := w.runInside(driver, found, later, c.args); got != c.want {
				t.Errorf("%s, given later %v: %q, want %q", name, later, got, c.want)
			}
		}
	}
}

// runInside runs a program in a new sandbox and returns its output. If the sandbox cannot
// start the program, runInside returns the error message.
func (w *world) runInside(driver sandbox.Driver, found agentcli.CLI, later bool, args []string) string {
	w.Helper()
	dir, err := os.MkdirTemp(w.root, "box")
	if err != nil {
		w.Fatal(err)
	}
	spec := sandbox.Spec{ID: strings.ToLower(path.Base(dir)), Home: path.Join(dir, "home"), Workspace: path.Join(dir, "workspace"), Scratch: path.Join(dir, "scratch"), Run: path.Join(dir, "run")}
	for _, d := range []string{spec.Home, spec.Workspace, spec.Scratch, spec.Run} {
		if err := os.Mkdir(d, 0o755); err != nil {
			w.Fatal(err)
		}
	}
	if !later {
		spec.Mounts = found.Mounts
	}
	box, err := driver.Prepare(w.Context(), spec)
	if err != nil {
		w.Fatal(err)
	}
	defer func() {
		if err := box.Close(context.WithoutCancel(w.Context())); err != nil {
			w.Error(err)
		}
	}()
	if later {
		if err := box.Attach(w.Context(), sandbox.Resources{}, found.Mounts); err != nil {
			w.Fatal(err)
		}
	}
	env := []string{"PATH=" + strings.Join(append(found.Path, "/usr/bin", "/bin"), ":")}
	for k, v := range found.Env {
		env = append(env, k+"="+v)
	}
	var out bytes.Buffer
	err = box.Start(w.Context(), sandbox.Command{Argv: append([]string{found.Program.Path}, args...), Env: env, Stdout: &out, Stderr: &out})
	if setup, ok := errors.AsType[*sandbox.Error](err); ok {
		return setup.Message
	}
	if err != nil {
		w.Fatal(err)
	}
	if _, err := box.Wait(w.Context()); err != nil {
		w.Fatal(err)
	}
	return out.String()
}
