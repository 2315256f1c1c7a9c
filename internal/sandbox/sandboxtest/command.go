package sandboxtest

import (
	"context"
	"errors"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/stint-dev/stint/internal/sandbox"
)

// commandCases test a command's input, output, and start.
var commandCases = map[string]func(*world){
	"exit code":                       exitCodes,
	"environment":                     environment,
	"arguments":                       arguments,
	"standard input":                  standardInput,
	"no standard input":               noInput,
	"input that is not read":          inputNotRead,
	"output of 10 MB":                 bigOutput,
	"slow writer":                     slowReader,
	"failing writer":                  failingReader,
	"output and errors":               outputAndErrors,
	"one writer for both streams":     oneWriter,
	"no writers":                      noWriters,
	"working directory":               workingDirectory,
	"no such program":                 noSuchProgram,
	"empty command":                   emptyCommand,
	"start twice":                     startTwice,
	"wait before start":               waitBeforeStart,
	"prepare with a canceled context": prepareBounded,
	"invalid specs":                   refusedSpecs,
	"ID":                              identity,
	"two sandboxes at once":           twoAtOnce,
	"large command":                   largeCommand,
	"several sandboxes in sequence":   manyInARow,
	"usage during and after a run":    usageWorks,
}

func exitCodes(w *world) {
	for _, code := range []int{0, 3, 255} {
		r := w.launch(w.spec(), "exit", strconv.Itoa(code))
		w.wantExit(r, sandbox.Exit{Code: code, Cause: sandbox.Exited})
	}
}

func environment(w *world) {
	c := command("env")
	c.Env = []string{"A=1", "EMPTY=", "PATH=" + toolsDir, "TEXT=with spaces, = and\ttab ü"}
	r := w.start(w.prepare(w.spec()), c)
	w.wantExit(r, sandbox.Exit{Cause: sandbox.Exited})
	w.want("environment", strings.Join(c.Env, "\n"), r.stdout.String())
}

func arguments(w *world) {
	args := []string{"", "a b", "--flag=x", "line\nbreak", "ü€😀", `"quoted" 'and' $HOME`, "*"}
	got := w.succeed(w.spec(), append([]string{"args"}, args...)...)
	w.want("arguments", strings.Join(args, "\x00")+"\x00", got)
}

func standardInput(w *world) {
	text := string(floodText(1 << 20))
	c := command("cat")
	c.Stdin = strings.NewReader(text)
	r := w.start(w.prepare(w.spec()), c)
	w.wantExit(r, sandbox.Exit{Cause: sandbox.Exited})
	if r.stdout.String() != text {
		w.Errorf("%d bytes were returned of %d", len(r.stdout.String()), len(text))
	}
}

func noInput(w *world) { w.want("input", "", w.succeed(w.spec(), "cat")) }

func inputNotRead(w *world) {
	ours, theirs := io.Pipe()
	defer theirs.Close()
	c := command("exit", "0")
	c.Stdin = ours // reading from this pipe blocks until the test ends
	r := w.start(w.prepare(w.spec()), c)
	w.wantExit(r, sandbox.Exit{Cause: sandbox.Exited})
}

func bigOutput(w *world) {
	const size = 10 << 20
	got := w.succeed(w.spec(), "flood", strconv.Itoa(size))
	if want := string(floodText(size)); got != want {
		w.Errorf("%d bytes were read of %d, or different bytes", len(got), len(want))
	}
}

// gate is a writer that blocks in Write until the channel open is closed.
type gate struct {
	output
	open chan struct{}
}

func (g *gate) Write(p []byte) (int, error) {
	<-g.open
	return g.output.Write(p)
}

// slowReader starts a command with a writer that blocks until long after the command's
// end. Wait must not return before the writer has received all output.
func slowReader(w *world) {
	const size = 60 << 10 // small enough that the command can end before its output is read
	g := &gate{open: make(chan struct{})}
	g.grown = make(chan struct{}, 1)
	c := command("flood", strconv.Itoa(size))
	c.Stdout = g
	r := w.start(w.prepare(w.spec()), c)
	ctx, cancel := context.WithTimeout(w.Context(), 400*time.Millisecond)
	defer cancel()
	if e, err := r.Wait(ctx); err == nil {
		w.Errorf("Wait returns %+v before the output was written", e)
	}
	close(g.open)
	w.wantExit(r, sandbox.Exit{Cause: sandbox.Exited})
	if g.String() != string(floodText(size)) {
		w.Errorf("%d bytes were read of %d, or different bytes", len(g.String()), size)
	}
}

type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, errors.New("broken") }

func failingReader(w *world) {
	c := command("flood", "300000")
	c.Stdout = failingWriter{}
	w.wantExit(w.start(w.prepare(w.spec()), c), sandbox.Exit{Cause: sandbox.Exited})
}

func outputAndErrors(w *world) {
	r := w.launch(w.spec(), "say", "out1", "err1", "out2", "err2")
	w.wantExit(r, sandbox.Exit{Cause: sandbox.Exited})
	w.want("stdout", "out1out2", r.stdout.String())
	w.want("stderr", "err1err2", r.stderr.String())
}

func oneWriter(w *world) {
	both := newOutput()
	c := command("say", "out1 ", "err1 ", "out2 ", "err2")
	c.Stdout, c.Stderr = both, both
	w.wantExit(w.start(w.prepare(w.spec()), c), sandbox.Exit{Cause: sandbox.Exited})
	w.want("both, in the order of writes", "out1 err1 out2 err2", both.String())
}

func noWriters(w *world) {
	b := w.prepare(w.spec())
	w.must(b.Start(w.Context(), command("say", "out", "err")))
	w.wantExit(&running{b, newOutput(), newOutput()}, sandbox.Exit{Cause: sandbox.Exited})
}

func workingDirectory(w *world) {
	w.want("default", sandbox.WorkspaceDir, w.succeed(w.spec(), "pwd"))
	c := command("pwd")
	c.Dir = sandbox.HomeDir
	r := w.start(w.prepare(w.spec()), c)
	w.wantExit(r, sandbox.Exit{Cause: sandbox.Exited})
	w.want("chosen", sandbox.HomeDir, r.stdout.String())
}

func (w *world) wantSentence(err error) {
	w.Helper()
	var e *sandbox.Error
	if !errors.As(err, &e) {
		w.Fatalf("got %v, want a *sandbox.Error", err)
	}
	if !strings.HasSuffix(e.Message, ".") {
		w.Errorf("%q is not a sentence", e.Message)
	}
}

func noSuchProgram(w *world) {
	for _, argv := range [][]string{{"no-such-program"}, {"/no/such/program"}, {"./no-such-program", "x"}} {
		b := w.prepare(w.spec())
		w.wantSentence(b.Start(w.Context(), sandbox.Command{Argv: argv, Env: []string{"PATH=" + toolsDir}, Stdin: strings.NewReader("x"), Stdout: newOutput()}))
	}
}

func emptyCommand(w *world) {
	w.wantSentence(w.prepare(w.spec()).Start(w.Context(), sandbox.Command{}))
}

func startTwice(w *world) {
	r := w.launch(w.spec(), "exit", "0")
	if err := r.Start(w.Context(), command("exit", "1")); err == nil {
		w.Error("a second Start succeeds")
	}
	w.wantExit(r, sandbox.Exit{Cause: sandbox.Exited})
}

func waitBeforeStart(w *world) {
	if _, err := w.prepare(w.spec()).Wait(w.Context()); err == nil {
		w.Error("Wait before Start succeeds")
	}
}

func prepareBounded(w *world) {
	ctx, cancel := cancelled(w)
	defer cancel()
	s := w.spec()
	if b, err := w.driver.Prepare(ctx, s); err == nil {
		w.Error("Prepare succeeds with a canceled context")
		w.must(b.Close(w.Context()))
	}
	w.must(os.RemoveAll(s.Scratch))
	w.must(os.Mkdir(s.Scratch, 0o700))
	w.prepare(s) // succeeds because the failed Prepare left nothing behind
}

func refusedSpecs(w *world) {
	for name, spoil := range map[string]func(*sandbox.Spec){
		"no ID":             func(s *sandbox.Spec) { s.ID = "" },
		"a path as ID":      func(s *sandbox.Spec) { s.ID = "../x" },
		"a relative home":   func(s *sandbox.Spec) { s.Home = "home" },
		"no workspace":      func(s *sandbox.Spec) { s.Workspace = "" },
		"a reserved target": func(s *sandbox.Spec) { s.Mounts = append(s.Mounts, sandbox.Mount{Source: s.Home, Target: "/proc/x"}) },
		"an unclean target": func(s *sandbox.Spec) {
			s.Mounts = append(s.Mounts, sandbox.Mount{Source: s.Home, Target: "/data/../etc"})
		},
		"a relative run folder": func(s *sandbox.Spec) { s.Run = "run" },
		"a relative image":      func(s *sandbox.Spec) { s.Image = "image" },
	} {
		s := w.spec()
		spoil(&s)
		if b, err := w.driver.Prepare(w.Context(), s); err == nil {
			w.Errorf("a spec with %s is valid", name)
			w.must(b.Close(w.Context()))
		}
	}
}

func identity(w *world) {
	s := w.spec()
	w.want("ID", s.ID, w.prepare(s).ID())
	twin := w.spec()
	twin.ID = s.ID
	if b, err := w.driver.Prepare(w.Context(), twin); err == nil {
		w.Error("a second sandbox with the same ID is prepared")
		w.must(b.Close(w.Context()))
	}
}

func twoAtOnce(w *world) {
	one, two := w.spec(), w.spec()
	path := sandbox.WorkspaceDir + "/who"
	first, second := w.prepare(one), w.prepare(two)
	a, b := w.start(first, command("write", path, "one")), w.start(second, command("write", path, "two"))
	w.wantExit(a, sandbox.Exit{Cause: sandbox.Exited})
	w.wantExit(b, sandbox.Exit{Cause: sandbox.Exited})
	w.want("first", "one", w.hostFile(one.Workspace, "who"))
	w.want("second", "two", w.hostFile(two.Workspace, "who"))
}

// largeCommand passes arguments of 1.2 MB in total, because agents may receive long
// prompts as arguments.
func largeCommand(w *world) {
	args := make([]string, 12)
	for i := range args {
		args[i] = strings.Repeat(string(rune('a'+i)), 100<<10)
	}
	got := w.succeed(w.spec(), append([]string{"args"}, args...)...)
	if got != strings.Join(args, "\x00")+"\x00" {
		w.Errorf("%d bytes of arguments were returned", len(got))
	}
}

func manyInARow(w *world) {
	for i := range 10 {
		text := strconv.Itoa(i)
		w.want("output", text+"\x00", w.succeed(w.spec(), "args", text))
	}
}

func usageWorks(w *world) {
	r := w.launch(w.spec(), "hang")
	w.awaitText(r.stdout, "ready")
	if _, err := r.Usage(w.Context()); err != nil {
		w.Errorf("Usage while the command runs: %v", err)
	}
	w.kill(r, 0)
	w.wait(r)
	if _, err := r.Usage(w.Context()); err != nil {
		w.Errorf("Usage after the command's end: %v", err)
	}
	w.must(r.Close(w.Context()))
	if _, err := r.Usage(w.Context()); err == nil {
		w.Error("Usage after Close succeeds")
	}
}
