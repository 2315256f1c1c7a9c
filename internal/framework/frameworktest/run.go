package frameworktest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/framework"
)

// Dirs are temporary directories in which a program runs without a sandbox.
type Dirs struct{ Home, WorkDir, RunDir, Tmp string }

// MakeDirs creates temporary directories. They are removed when the test ends.
func MakeDirs(t testing.TB) Dirs {
	t.Helper()
	dir := t.TempDir()
	p := Dirs{Home: filepath.Join(dir, "home"), WorkDir: filepath.Join(dir, "work"), RunDir: filepath.Join(dir, "run"), Tmp: filepath.Join(dir, "tmp")}
	for _, d := range []string{p.Home, p.WorkDir, p.RunDir, p.Tmp} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

// Options are the options of a run. If Stop is not empty, the agent is interrupted
// as soon as the transcript contains Stop. If Kill is not empty, the agent is
// killed as soon as the transcript contains Kill.
type Options struct {
	Env        map[string]string // added to the plan's environment; overrides its variables
	Stop, Kill string
	// ExitGrace is how long the agent may run after its final message; 0 means
	// 10 seconds.
	ExitGrace time.Duration
}

// Result is the result of a run.
type Result struct {
	Stdout, Stderr []byte
	Code           int // exit code; -1 if the agent was killed
	Step           framework.Step
	Verdict        framework.Verdict
	Conversation   framework.Conversation
}

// Run runs the framework's program without a sandbox and executes the steps that
// the decoder returns. It kills a program that does not exit within o.ExitGrace
// after its final message.
func Run(t testing.TB, f framework.Framework, at Dirs, in framework.Input, o Options) Result {
	t.Helper()
	in.Home, in.WorkDir, in.RunDir = at.Home, at.WorkDir, at.RunDir
	plan, err := f.Prepare(in)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range plan.Files {
		if err := errors.Join(os.MkdirAll(filepath.Dir(file.Path), 0o755), os.WriteFile(file.Path, file.Content, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	cmd := exec.CommandContext(ctx, plan.Argv[0], plan.Argv[1:]...)
	cmd.Dir, cmd.Env = at.WorkDir, environment(at, plan.Env, o.Env)
	if o.ExitGrace <= 0 {
		o.ExitGrace = 10 * time.Second
	}
	cmd.WaitDelay = o.ExitGrace // limits the wait for orphans that keep the output open
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	w := &recordedRun{d: f.NewDecoder(in), o: o, stdin: stdin, kill: cancel}
	cmd.Stdout, cmd.Stderr = &tap{w: w, name: framework.Stdout}, &tap{w: w, name: framework.Stderr}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_, _ = stdin.Write(plan.Stdin) // fails if the program ended at once
	if !plan.KeepStdinOpen {
		stdin.Close()
	}
	_ = cmd.Wait() // the exit code is part of the result
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.exitTimer != nil {
		w.exitTimer.Stop()
	}
	for _, name := range []string{framework.Stdout, framework.Stderr} {
		w.step.Join(w.d.Flush(name))
	}
	return Result{
		Stdout: w.stdout.Bytes(), Stderr: w.stderr.Bytes(), Code: cmd.ProcessState.ExitCode(), Step: w.step,
		Verdict: w.d.Verdict(cmd.ProcessState.ExitCode()), Conversation: w.d.Conversation(),
	}
}

// environment returns the variables that a sandbox sets, followed by those of plan
// and over. Later variables override earlier ones. GORACE makes fake agents with the
// race detector exit without a delay.
func environment(at Dirs, plan, over map[string]string) []string {
	env := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + at.Home, "TMPDIR=" + at.Tmp, "LANG=C.UTF-8", "TERM=dumb", "GORACE=atexit_sleep_ms=0"}
	for _, m := range []map[string]string{plan, over} {
		for k, v := range m {
			env = append(env, k+"="+v)
		}
	}
	return env
}

// recordedRun passes the output of a program to a decoder and records both.
type recordedRun struct {
	o     Options
	stdin io.WriteCloser
	kill  func()

	mu             sync.Mutex // guards the fields below
	d              framework.Decoder
	stdout, stderr bytes.Buffer
	step           framework.Step
	transcript     strings.Builder
	stopped        bool
	exitTimer      *time.Timer
}

// tap passes one output stream of the program to a recordedRun.
type tap struct {
	w    *recordedRun
	name string
}

func (p *tap) Write(b []byte) (int, error) {
	w := p.w
	w.mu.Lock()
	defer w.mu.Unlock()
	if p.name == framework.Stdout {
		w.stdout.Write(b)
	} else {
		w.stderr.Write(b)
	}
	s := w.d.Write(p.name, b)
	w.step.Join(s)
	w.transcript.WriteString(Content(s.Events))
	if len(s.Send) > 0 {
		_, _ = w.stdin.Write(s.Send)
	}
	if s.CloseStdin {
		w.stdin.Close()
	}
	if s.Ended && w.exitTimer == nil {
		w.exitTimer = time.AfterFunc(w.o.ExitGrace, w.kill)
	}
	if w.o.Stop != "" && !w.stopped && strings.Contains(w.transcript.String(), w.o.Stop) {
		w.stopped = true
		_, _ = w.stdin.Write(w.d.Interrupt())
	}
	if w.o.Kill != "" && strings.Contains(w.transcript.String(), w.o.Kill) {
		w.kill()
	}
	return len(b), nil
}

// Said returns the transcript of the run.
func (r Result) Said() string { return Content(r.Step.Events) }

// Transcript checks that the transcript contains all parts.
func (r Result) Transcript(t testing.TB, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(r.Said(), part) {
			t.Errorf("the transcript has no %q:\n%.2000s\nstderr: %.2000s", part, r.Said(), r.Stderr)
		}
	}
}

// Completed checks that the run completed.
func (r Result) Completed(t testing.TB) {
	t.Helper()
	if diff := cmp.Diff(framework.Verdict{Completed: true, Final: r.Verdict.Final}, r.Verdict); diff != "" || r.Verdict.Final == "" {
		t.Errorf("verdict (-want +got):\n%s\nstderr: %s", diff, r.Stderr)
	}
}

// record writes the run to a recording. It replaces the paths in the output by
// those in a sandbox, and the address of the model by stint.ModelAlias.
func (r Result) record(t testing.TB, name string, at Dirs, model string) {
	t.Helper()
	slug := strings.NewReplacer("/", "-", ".", "-", "_", "-")
	replacer := strings.NewReplacer(
		at.Home, "/home/agent", at.WorkDir, "/workspace", at.RunDir, "/run/stint", at.Tmp, "/tmp", slug.Replace(at.WorkDir), "-workspace",
		strings.TrimPrefix(model, "http://"), stint.ModelAlias)
	exit := "killed\n"
	if r.Code >= 0 {
		exit = strconv.Itoa(r.Code) + "\n"
	}
	archive := &txtar.Archive{Files: []txtar.File{
		{Name: "stdout", Data: ended(replacer.Replace(string(r.Stdout)))},
		{Name: "stderr", Data: ended(replacer.Replace(string(r.Stderr)))},
		{Name: "exit", Data: []byte(exit)},
	}}
	if err := os.WriteFile(filepath.Join("testdata", name+".txtar"), txtar.Format(archive), 0o600); err != nil {
		t.Fatal(err)
	}
}

func ended(s string) []byte {
	if s != "" && !strings.HasSuffix(s, "\n") {
		s += "\n"
	}
	return []byte(s)
}
