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

// Dirs is where programs are run, without a sandbox: folders of the test's own.
type Dirs struct{ Home, WorkDir, RunDir, Tmp string }

// MakeDirs makes one.
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

// Options change a run. Stop and Kill are texts: when the transcript has one,
// the agent is asked to stop, or killed.
type Options struct {
	Env        map[string]string // over the plan's
	Stop, Kill string
	// ExitGrace is how long it may stay after its last word; 0 is 10 seconds.
	ExitGrace time.Duration
}

// Result is what came of a run.
type Result struct {
	Stdout, Stderr []byte
	Code           int // -1 where it was killed
	Step           framework.Step
	Verdict        framework.Verdict
	Conversation   framework.Conversation
}

// Run prepares and runs a real program, and does what the decoder says. It
// kills what does not end after the last word.
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
	cmd.WaitDelay = o.ExitGrace // for what it left that holds its output open
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	w := &session{d: f.NewDecoder(in), o: o, stdin: stdin, kill: cancel}
	cmd.Stdout, cmd.Stderr = &tap{w: w, name: framework.Stdout}, &tap{w: w, name: framework.Stderr}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_, _ = stdin.Write(plan.Stdin) // one that ends at once does not read it
	if !plan.KeepStdinOpen {
		stdin.Close()
	}
	_ = cmd.Wait() // its exit code tells
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

// environment is what every sandbox has. Puppets with the race detector in them
// end at once.
func environment(at Dirs, plan, over map[string]string) []string {
	env := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + at.Home, "TMPDIR=" + at.Tmp, "LANG=C.UTF-8", "TERM=dumb", "GORACE=atexit_sleep_ms=0"}
	for _, m := range []map[string]string{plan, over} {
		for k, v := range m {
			env = append(env, k+"="+v)
		}
	}
	return env
}

// session stands between a program and its decoder.
type session struct {
	o     Options
	stdin io.WriteCloser
	kill  func()

	mu             sync.Mutex // guards what follows
	d              framework.Decoder
	stdout, stderr bytes.Buffer
	step           framework.Step
	said           strings.Builder
	stopped        bool
	exitTimer      *time.Timer
}

type tap struct {
	w    *session
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
	w.said.WriteString(Content(s.Events))
	if len(s.Send) > 0 {
		_, _ = w.stdin.Write(s.Send)
	}
	if s.CloseStdin {
		w.stdin.Close()
	}
	if s.Ended && w.exitTimer == nil {
		w.exitTimer = time.AfterFunc(w.o.ExitGrace, w.kill)
	}
	if w.o.Stop != "" && !w.stopped && strings.Contains(w.said.String(), w.o.Stop) {
		w.stopped = true
		_, _ = w.stdin.Write(w.d.Interrupt())
	}
	if w.o.Kill != "" && strings.Contains(w.said.String(), w.o.Kill) {
		w.kill()
	}
	return len(b), nil
}

// Said is the transcript of a run.
func (r Result) Said() string { return Content(r.Step.Events) }

// Transcript holds a run's text, to what it is like where it has to.
func (r Result) Transcript(t testing.TB, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(r.Said(), part) {
			t.Errorf("the transcript has no %q:\n%.2000s\nstderr: %.2000s", part, r.Said(), r.Stderr)
		}
	}
}

// Completed holds a run to its verdict.
func (r Result) Completed(t testing.TB) {
	t.Helper()
	if diff := cmp.Diff(framework.Verdict{Completed: true, Final: r.Verdict.Final}, r.Verdict); diff != "" || r.Verdict.Final == "" {
		t.Errorf("verdict (-want +got):\n%s\nstderr: %s", diff, r.Stderr)
	}
}

// record writes a run down as a recording, in which the places of the machine
// are those of a sandbox.
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
