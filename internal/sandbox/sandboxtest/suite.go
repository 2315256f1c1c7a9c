package sandboxtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint/internal/sandbox"
)

// Harness describes a driver and what it supports.
type Harness struct {
	// New returns a driver that stores its state below stateDir. The crash test also
	// runs a server in another process. That server gets its driver from the function
	// passed to Init.
	New func(stateDir string) (sandbox.Driver, error)
	// Isolates is set if commands are isolated processes. It is false only for
	// test drivers.
	Isolates bool
	// OwnKernel is set if each sandbox has its own kernel. Then the host does not see
	// the sandbox's processes, and attacks that affect only that kernel may succeed.
	OwnKernel bool
	// Limits are the limits that the driver enforces. The suite tests them and
	// compares them with the limits that Probe reports.
	Limits sandbox.Enforced
	// Network, Images, Overlay, and Attach are set if the driver supports, in this
	// order, Spec.Network, Spec.Image, overlays, and Sandbox.Attach. Without Overlay,
	// the driver must refuse overlays with ErrOverlay. Without Attach,
	// Sandbox.Attach must return ErrAttach.
	Network, Images, Overlay, Attach bool
}

const (
	toolsDir       = "/suite"       // folder of the test binary inside a sandbox
	scriptArgument = "stint-hijack" // first argument of this binary if a script has started it
	serverEnv      = "STINT_SANDBOXTEST_SERVER"
	secretEnv      = "STINT_SANDBOXTEST_SECRET"
	secret         = "the-servers-own-secret"
	testTimeout    = 90 * time.Second // for operations that normally take milliseconds; only failing tests wait so long
)

// Init must be called first in TestMain. If this process was started as one of the suite's
// programs or as the server of the crash test, Init runs it and exits with its exit code.
// Otherwise Init returns. newDriver returns the driver of that server, which stores its
// state below stateDir.
func Init(newDriver func(stateDir string) (sandbox.Driver, error)) {
	if len(os.Args) > 0 && filepath.Base(os.Args[0]) == programName {
		os.Exit(runProgramProcess())
	}
	if len(os.Args) > 1 && os.Args[1] == scriptArgument {
		os.Args = []string{programName, "modify-parent"}
		os.Exit(runProgramProcess())
	}
	if dir := os.Getenv(serverEnv); dir != "" {
		os.Exit(runCrashServer(dir, newDriver))
	}
}

// Run runs the suite, as subtests of t, for the driver that h describes.
func Run(t *testing.T, h Harness) {
	t.Setenv(secretEnv, secret) // the test case serverSecrets checks that sandboxes cannot read it
	s := &suite{Harness: h, tools: toolsDirFor(t, h)}
	d, err := h.New(t.TempDir())
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	s.driver = d
	t.Cleanup(func() { s.closeDriver(t, d) })
	t.Run("report", s.report)
	t.Run("cases", func(t *testing.T) {
		for name, run := range s.cases() {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				run(newWorld(t, s))
			})
		}
	})
	if h.Isolates {
		t.Run("controls", func(t *testing.T) {
			for name, run := range controls {
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					run(newWorld(t, s))
				})
			}
		})
		t.Run("crash", func(t *testing.T) { s.crash(t, func(int) {}) })
		t.Run("crash with stopped processes", func(t *testing.T) { s.crash(t, stopDescendants) })
	}
}

type suite struct {
	Harness
	driver sandbox.Driver
	tools  string
	mu     sync.Mutex // guards ids
	ids    int
}

func (s *suite) cases() map[string]func(*world) {
	all := map[string]func(*world){}
	groups := []map[string]func(*world){commandCases, folderCases, layerCases, endCases}
	if s.Isolates {
		groups = append(groups, processCases, hostileCases)
	}
	if s.Network {
		groups = append(groups, networkCases)
	}
	if s.Images {
		groups = append(groups, imageCases)
	}
	if s.Overlay {
		groups = append(groups, s.overlayTests())
	} else {
		groups = append(groups, noOverlayCases)
	}
	if s.Attach {
		groups = append(groups, attachCases)
	} else {
		groups = append(groups, noAttachCases)
	}
	for _, g := range groups {
		maps.Copy(all, g)
	}
	for name, c := range limitCases {
		if c.holds(s.Limits) {
			all[name] = c.run
		}
	}
	return all
}

func (s *suite) report(t *testing.T) {
	r := s.driver.Probe(t.Context())
	if !r.Available {
		t.Fatalf("Probe: not available: %v", r.Notes)
	}
	if r.Driver != s.driver.Name() {
		t.Errorf("Probe names the driver %q, Name %q", r.Driver, s.driver.Name())
	}
	if s.Network != r.Network {
		t.Errorf("network: declared %t, reported %t: %v", s.Network, r.Network, r.Notes)
	}
	if s.Overlay != r.Overlay {
		t.Errorf("overlay: declared %t, reported %t: %v", s.Overlay, r.Overlay, r.Notes)
	}
	if diff := cmp.Diff(s.Limits, r.Limits); diff != "" {
		t.Errorf("limits (-declared +reported):\n%s%v", diff, r.Notes)
	}
}

// closeDriver closes the driver if it has a Close method.
func (s *suite) closeDriver(t *testing.T, d sandbox.Driver) {
	if c, ok := d.(io.Closer); ok {
		if err := c.Close(); err != nil {
			t.Errorf("closing driver: %v", err)
		}
	}
}

// toolsDirFor returns a new folder that is mounted in sandboxes. It contains the test binary
// if commands are processes; otherwise it is empty.
func toolsDirFor(t *testing.T, h Harness) string {
	dir := t.TempDir()
	if !h.Isolates {
		return dir
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, programName), b, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// world is the environment of one test case: the driver and a folder for the case's files.
type world struct {
	*testing.T
	suite  *suite
	driver sandbox.Driver
	dir    string // has mode 0700, like a server's data folder
}

func newWorld(t *testing.T, s *suite) *world {
	w := &world{T: t, suite: s, driver: s.driver, dir: filepath.Join(t.TempDir(), "data")}
	w.must(os.Mkdir(w.dir, 0o700))
	return w
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// writeProgram writes an executable file. It holds ForkLock while the file is open, so that
// no new process inherits the open file: a file cannot be executed while a process has it
// open for writing.
func (w *world) writeProgram(path, program string) {
	w.Helper()
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	w.must(os.WriteFile(path, []byte(program), 0o755))
}

// spec returns a valid spec with a new ID and new folders.
func (w *world) spec() sandbox.Spec {
	w.Helper()
	w.suite.mu.Lock()
	w.suite.ids++
	id := fmt.Sprintf("run_%d_%d", os.Getpid(), w.suite.ids)
	w.suite.mu.Unlock()
	base := filepath.Join(w.dir, id)
	s := sandbox.Spec{
		ID: id, Home: filepath.Join(base, "home"), Workspace: filepath.Join(base, "workspace"), Scratch: filepath.Join(base, "scratch"),
		Run: filepath.Join(base, "run"), Mounts: []sandbox.Mount{{Source: w.suite.tools, Target: toolsDir}},
	}
	for _, dir := range []string{s.Home, s.Workspace, s.Scratch, s.Run} {
		w.must(os.MkdirAll(dir, 0o700))
	}
	return s
}

// prepare returns a sandbox that is closed at the end of the test.
func (w *world) prepare(s sandbox.Spec) sandbox.Sandbox {
	w.Helper()
	b, err := w.driver.Prepare(w.Context(), s)
	if err != nil {
		w.Fatalf("Prepare: %v", err)
	}
	w.closeLater(b)
	return b
}

func (w *world) closeLater(b sandbox.Sandbox) {
	w.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
		defer cancel()
		if err := b.Close(ctx); err != nil {
			w.Errorf("Close: %v", err)
		}
	})
}

// noExitDelay prevents binaries with the race detector from sleeping for a
// second before they exit.
const noExitDelay = "GORACE=atexit_sleep_ms=0"

// command returns the command for one of the suite's programs.
func command(args ...string) sandbox.Command {
	return sandbox.Command{Argv: append([]string{toolsDir + "/" + programName}, args...), Env: []string{"PATH=" + toolsDir, noExitDelay}}
}

// output collects a command's output.
type output struct {
	mu    sync.Mutex // guards buf
	buf   bytes.Buffer
	grown chan struct{} // contains a token if Write was called since the last receive
}

func newOutput() *output { return &output{grown: make(chan struct{}, 1)} }

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	select {
	case o.grown <- struct{}{}:
	default:
	}
	return o.buf.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

// awaitText waits until a command has written a text. It fails the test after testTimeout.
func (w *world) awaitText(o *output, text string) {
	w.Helper()
	deadline := time.After(testTimeout)
	for !strings.Contains(o.String(), text) {
		select {
		case <-o.grown:
		case <-deadline:
			w.Fatalf("the command wrote %[2]q, want %[1]q", text, o.String())
		}
	}
}

// running is a sandbox with a started command and the command's output.
type running struct {
	sandbox.Sandbox
	stdout, stderr *output
}

func (w *world) start(b sandbox.Sandbox, c sandbox.Command) *running {
	w.Helper()
	r := &running{b, newOutput(), newOutput()}
	if c.Stdout == nil {
		c.Stdout = r.stdout
	}
	if c.Stderr == nil {
		c.Stderr = r.stderr
	}
	if err := b.Start(w.Context(), c); err != nil {
		w.Fatalf("Start: %v", err)
	}
	return r
}

// launch prepares a sandbox and starts one of the suite's programs in it.
func (w *world) launch(s sandbox.Spec, args ...string) *running {
	w.Helper()
	return w.start(w.prepare(s), command(args...))
}

func (w *world) wait(r *running) sandbox.Exit {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), testTimeout)
	defer cancel()
	e, err := r.Wait(ctx)
	if err != nil {
		w.Fatalf("Wait: %v; stdout %q, stderr %q", err, r.stdout, r.stderr)
	}
	return e
}

func (w *world) kill(r *running, grace time.Duration) {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), testTimeout)
	defer cancel()
	if err := r.Kill(ctx, grace); err != nil {
		w.Fatalf("Kill: %v", err)
	}
}

// succeed runs one of the suite's programs in a new sandbox and returns the program's
// output. The program must exit with code 0.
func (w *world) succeed(s sandbox.Spec, args ...string) string {
	w.Helper()
	r := w.launch(s, args...)
	w.wantExit(r, sandbox.Exit{Cause: sandbox.Exited})
	return r.stdout.String()
}

func (w *world) wantExit(r *running, want sandbox.Exit) {
	w.Helper()
	if diff := cmp.Diff(want, w.wait(r)); diff != "" {
		w.Errorf("exit (-want +got):\n%sstderr: %s", diff, r.stderr)
	}
}

func (w *world) want(what, want, got string) {
	w.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		w.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// runCrashServer is the server of the crash test. It prepares two sandboxes, runs a tree of
// processes in one of them, and never cleans up.
func runCrashServer(dir string, newDriver func(string) (sandbox.Driver, error)) int {
	fail := func(err error) int {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	d, err := newDriver(filepath.Join(dir, "state"))
	if err != nil {
		return fail(err)
	}
	s := sandbox.Spec{
		ID: crashID(dir), Home: filepath.Join(dir, "home"), Workspace: filepath.Join(dir, "workspace"), Scratch: filepath.Join(dir, "scratch"),
		Mounts: []sandbox.Mount{{Source: filepath.Join(dir, "tools"), Target: toolsDir}},
	}
	laid := s
	laid.Mounts = append(laid.Mounts, sandbox.Mount{
		Target: sandbox.WorkspaceDir, Layers: []string{filepath.Join(dir, "layer")}, Upper: filepath.Join(dir, "upper"),
	})
	b, err := d.Prepare(context.Background(), laid)
	if errors.Is(err, sandbox.ErrOverlay) {
		b, err = d.Prepare(context.Background(), s)
	}
	if err != nil {
		return fail(err)
	}
	parked := s
	parked.ID, parked.Scratch = "run_parked", ""
	if _, err := d.Prepare(context.Background(), parked); err != nil {
		return fail(err)
	}
	c := command("process-tree", filepath.Base(dir))
	c.Stdout, c.Stderr = os.Stdout, os.Stderr
	if err := b.Start(context.Background(), c); err != nil {
		return fail(err)
	}
	_, err = b.Wait(context.Background())
	return fail(fmt.Errorf("the process tree ended: %w", err))
}

// crashID returns the ID of the sandbox in which the crash test's server runs processes. dir
// is the server's folder. The ID is unique on this machine.
func crashID(dir string) string { return "run_" + filepath.Base(dir) }

// crash starts a server that runs processes in a sandbox, calls before with the
// server's process ID, and kills the server with SIGKILL. It then checks that Sweep of
// a new driver ends the processes and that the driver can run commands.
func (s *suite) crash(t *testing.T, before func(pid int)) {
	w := newWorld(t, s)
	mark := fmt.Sprintf("stint-crash-%d", time.Now().UnixNano())
	dir := filepath.Join(w.dir, mark)
	for _, sub := range []string{"home", "workspace", "scratch", "state", "layer", "upper"} {
		w.must(os.MkdirAll(filepath.Join(dir, sub), 0o700))
	}
	w.must(os.Symlink(s.tools, filepath.Join(dir, "tools")))
	out := newOutput()
	self, err := os.Executable()
	w.must(err)
	c := exec.Command(self)
	c.Env = append(os.Environ(), serverEnv+"="+dir)
	c.Stdout, c.Stderr = out, out
	w.must(c.Start())
	w.awaitText(out, "ready")
	if n := len(processesWithMarker(mark)); n < 9 && !s.OwnKernel { // the server is not counted, because its command line does not contain the marker
		t.Errorf("%d processes of the tree are visible, want 9", n)
	}
	if s.OwnKernel {
		mark = "\x00" + crashID(dir) + "\x00" // an argument of the processes that run the sandbox's kernel
		if len(processesWithMarker(mark)) == 0 {
			t.Error("the sandbox's kernel is not visible")
		}
	}
	before(c.Process.Pid)
	w.must(c.Process.Kill())
	var exit *exec.ExitError
	if err := c.Wait(); !errors.As(err, &exit) {
		t.Fatalf("waiting for the server: %v", err)
	}
	d, err := s.New(filepath.Join(dir, "state"))
	w.must(err)
	t.Cleanup(func() { s.closeDriver(t, d) })
	w.must(d.Sweep(t.Context()))
	if left := processesWithMarker(mark); len(left) > 0 {
		t.Errorf("processes after Sweep: %v", left)
	}
	w.must(d.Sweep(t.Context()))
	again := *w
	again.driver = d
	again.want("a sandbox after Sweep", "x\x00", again.succeed(again.spec(), "args", "x"))
	w.must(sandbox.Remove(filepath.Join(dir, "upper")))
	w.must(sandbox.Remove(filepath.Join(dir, ".upper.work")))
}
