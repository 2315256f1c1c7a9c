//go:build linux && (amd64 || arm64)

package gvisor_test

import (
	"bytes"
	"debug/buildinfo"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint/internal/sandbox"
	"github.com/stint-dev/stint/internal/sandbox/gvisor"
	"github.com/stint-dev/stint/internal/sandbox/namespace"
)

// parts returns the names of the host processes of a sandbox's kernel. Their last
// argument is the sandbox's ID.
func parts(t testing.TB, id string) []string {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err == nil && bytes.HasPrefix(b, []byte("runsc")) && bytes.HasSuffix(b, []byte("\x00"+id+"\x00")) {
			name, _, _ := strings.Cut(string(b), "\x00")
			names = append(names, name)
		}
	}
	return names
}

// output runs a command and returns its output.
func (w *world) output(b sandbox.Sandbox, argv ...string) string {
	w.Helper()
	var out bytes.Buffer
	if err := b.Start(w.Context(), sandbox.Command{Argv: argv, Stdout: &out, Stderr: &out}); err != nil {
		w.Fatal(err)
	}
	if e, err := b.Wait(w.Context()); err != nil || e.Code != 0 {
		w.Fatalf("exit %+v, %v; output %q", e, err, out.String())
	}
	return out.String()
}

// TestNothingIsLeft checks that no process of the kernel is left after
// sandboxes ended in various ways.
func TestNothingIsLeft(t *testing.T) {
	w := newWorld(t)
	for name, end := range map[string]func(b sandbox.Sandbox) error{
		"closed": func(b sandbox.Sandbox) error { return nil },
		"killed": func(b sandbox.Sandbox) error { return b.Kill(t.Context(), 0) },
		"started": func(b sandbox.Sandbox) error {
			return b.Start(t.Context(), sandbox.Command{Argv: []string{"sleep", "600"}})
		},
		"refused": func(b sandbox.Sandbox) error {
			if err := b.Start(t.Context(), sandbox.Command{Argv: []string{"/no/such/program"}}); err == nil {
				return errors.New("a program that does not exist was started")
			}
			return nil
		},
	} {
		s := w.spec()
		s.ID = fmt.Sprintf("left-%s-%d", name, os.Getpid()) // unique on this machine
		b := w.prepare(s)
		if got := parts(t, s.ID); len(got) < 2 {
			t.Errorf("%s: running kernel processes: %q", name, got)
		}
		if err := end(b); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		w.close(b)
		if got := parts(t, s.ID); len(got) > 0 {
			t.Errorf("%s: kernel processes after Close: %q", name, got)
		}
	}
}

// TestLateFiles checks that files added to the folders of a prepared sandbox
// are visible, although the kernel may have read the folders before.
func TestLateFiles(t *testing.T) {
	w := newWorld(t)
	s := w.spec()
	b := w.prepare(s)
	defer w.close(b)
	for dir, text := range map[string]string{s.Home: "home,", s.Workspace: "workspace,", s.Run: "run"} {
		if err := os.MkdirAll(filepath.Join(dir, "sub"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "sub", "late"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got := w.output(b, "sh", "-c", "cat /home/agent/sub/late /workspace/sub/late /run/stint/sub/late; echo; ls /home/agent /workspace /run/stint")
	want := "home,workspace,run\n/home/agent:\nsub\n\n/run/stint:\nsub\n\n/workspace:\nsub\n"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("seen inside (-want +got):\n%s", diff)
	}
}

// TestKernel checks that the agent and init run on gVisor's kernel.
func TestKernel(t *testing.T) {
	w := newWorld(t)
	b := w.prepare(w.spec())
	defer w.close(b)
	host, err := os.ReadFile("/proc/version")
	if err != nil {
		t.Fatal(err)
	}
	got := w.output(b, "sh", "-c", "cat /proc/version; hostname; id -u; tr '\\0' ' ' </proc/1/cmdline")
	if strings.Contains(got, strings.TrimSpace(string(host))) {
		t.Errorf("the agent sees the host's kernel: %s", got)
	}
	if !strings.HasSuffix(got, "\nstint\n1000\nstint-agentinit ") {
		t.Errorf("inside: %s", got)
	}
}

// TestAttach checks that limits can be changed and that mounts are refused.
func TestAttach(t *testing.T) {
	w := newWorld(t)
	b := w.prepare(w.spec())
	defer w.close(b)
	mounts := []sandbox.Mount{{Source: t.TempDir(), Target: "/data"}}
	if err := b.Attach(t.Context(), sandbox.Resources{}, mounts); !errors.Is(err, sandbox.ErrAttach) {
		t.Errorf("Attach of a mount: %v, want %v", err, sandbox.ErrAttach)
	}
	limits := sandbox.Resources{Memory: 300 << 20, Pids: 8, Disk: 1 << 30}
	if err := b.Attach(t.Context(), limits, nil); err != nil {
		t.Fatal(err)
	}
	if got := w.output(b, "sh", "-c", "ulimit -u 2>/dev/null || ulimit -p"); got != "8\n" {
		t.Errorf("the limit of processes inside is %q", got)
	}
	if u, err := b.Usage(t.Context()); err != nil || u.MemoryLimit != limits.Memory {
		t.Errorf("usage %+v, %v", u, err)
	}
}

func TestProbe(t *testing.T) {
	w := newWorld(t)
	r := w.driver.Probe(t.Context())
	if r.Driver != "gvisor" || !r.Available || r.Rootless != (os.Geteuid() != 0) {
		t.Errorf("report %+v", r)
	}
	if notes := strings.Join(r.Notes, " "); !strings.Contains(notes, "gVisor v0.") || !strings.Contains(notes, "systrap") {
		t.Errorf("the notes do not mention the kernel: %q", r.Notes)
	}
}

// TestUnavailable checks that New returns ErrUnavailable with the reason if runsc does
// not work.
func TestUnavailable(t *testing.T) {
	t.Parallel()
	program := func(text string) string {
		path := filepath.Join(t.TempDir(), "runsc")
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for name, c := range map[string]struct {
		runsc, reason string
	}{
		"missing":     {"/no/such/runsc", "no such file"},
		"a folder":    {t.TempDir(), "not a program"},
		"not runsc":   {program("#!/bin/sh\necho the reason >&2\nexit 3\n"), "the reason"},
		"exits":       {program("#!/bin/sh\nexit 0\n"), "its first process ended"},
		"no program":  {program("text"), "exec format error"},
		"logs, fails": {program("#!/bin/sh\necho logged >/dev/shm/inner/log\nexit 1\n"), "logged"},
	} {
		_, err := gvisor.New(gvisor.Config{Config: namespace.Config{StateDir: t.TempDir()}, Binary: os.Getenv(kernelEnv), Runsc: c.runsc})
		if !errors.Is(err, sandbox.ErrUnavailable) || !strings.Contains(err.Error(), c.reason) {
			t.Errorf("%s: %v, want %q", name, err, c.reason)
		}
	}
}

// TestFilters checks that the precomputed filters are for the linked version of
// gVisor. Otherwise each start would compute them.
func TestFilters(t *testing.T) {
	t.Parallel()
	info, err := buildinfo.ReadFile(os.Getenv(kernelEnv))
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("embedded/filters_amd64.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range info.Deps {
		if m.Path == "gvisor.dev/gvisor" && !bytes.Contains(text, []byte(`const filtersVersion = "`+m.Version+`"`)) {
			t.Errorf("the filters are not those of gVisor %s: run go generate in embedded", m.Version)
		}
	}
}

// TestMemory checks the memory limit, with and without a control group. Memory that
// many small processes share counts once.
func TestMemory(t *testing.T) {
	w := newWorld(t)
	s := w.spec()
	s.Resources.Memory = 256 << 20
	b := w.prepare(s)
	defer w.close(b)
	crowd := "for i in 1 2 3 4 5 6 7 8 9 10 11 12; do sleep 1 & done; wait; echo done"
	if got := w.output(b, "sh", "-c", crowd); got != "done\n" {
		t.Errorf("many small processes: %q", got)
	}
	s = w.spec()
	s.Resources.Memory = 256 << 20
	glutton := w.prepare(s)
	defer w.close(glutton)
	// the process stays until its usage is measured
	if e := w.run(glutton, "sh", "-c", "{ head -c 600000000 /dev/zero; sleep 60; } | tail"); e.Cause != sandbox.OOMKilled {
		t.Errorf("600 MB under a limit of 256: exit %+v", e)
	}
}

// TestProgramWithoutGVisor checks that New refuses a program without gVisor before it
// starts the program. The program is this test binary.
func TestProgramWithoutGVisor(t *testing.T) {
	t.Parallel()
	_, err := gvisor.New(gvisor.Config{Config: namespace.Config{StateDir: t.TempDir()}})
	if !errors.Is(err, sandbox.ErrUnavailable) || !strings.Contains(err.Error(), "built without it") {
		t.Errorf("error %v", err)
	}
}
