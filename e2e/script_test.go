package e2e_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/stint-dev/stint/internal/framework/fakecli"
	"github.com/stint-dev/stint/internal/testkit/requirement"
)

var update = flag.Bool("update", false, "rewrite golden files in scripts")

// bin is the folder that contains the program under test.
var bin string

func TestMain(m *testing.M) {
	fakecli.Main()
	flag.Parse()
	dir, err := os.MkdirTemp("", "stint-bin-")
	if err == nil {
		bin, err = dir, build(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	if err := os.RemoveAll(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func build(dir string) error {
	cmd := exec.Command("go", "build", "-o", filepath.Join(dir, "stint"), "github.com/stint-dev/stint/cmd/stint")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building stint: %w\n%s", err, out)
	}
	return nil
}

func TestScripts(t *testing.T) {
	t.Parallel()
	runScripts(t, "testdata")
}

// TestProgramScripts runs the scripts that need programs which are not part of every
// machine.
func TestProgramScripts(t *testing.T) {
	t.Parallel()
	requirement.Programs(t, "git", "python3")
	runScripts(t, "testdata/programs")
}

// runScripts runs the scripts in a folder as subtests.
func runScripts(t *testing.T, dir string) {
	examples, err := filepath.Abs("../examples")
	if err != nil {
		t.Fatal(err)
	}
	fake, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir: dir, RequireExplicitExec: true, RequireUniqueNames: true, UpdateScripts: *update,
		Setup: func(e *testscript.Env) error {
			for _, v := range os.Environ() {
				if name, _, _ := strings.Cut(v, "="); strings.HasPrefix(name, "STINT_") || strings.HasPrefix(name, "XDG_") {
					e.Setenv(name, "")
				}
			}
			e.Setenv("HOME", e.WorkDir+"/home")
			e.Setenv("USER", "ada")
			e.Setenv("EXAMPLES", examples)
			e.Setenv("BIN", bin)
			e.Setenv("FAKE", fake)
			e.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
			return os.Mkdir(e.WorkDir+"/tmp", 0o777)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"defer": deferred, "code": exitCode, "serve": serve, "halt": stop, "capture": capture("stdout"), "capture2": capture("stderr"), "until": until, "empty": empty, "lived": lived,
		},
	})
}

// times matches the times of a token in JSON.
var times = regexp.MustCompile(`"(expiresAt|createdAt)":"([^"]+)"`)

// lived implements the script command "lived N", which checks that the token on the
// standard output expires N seconds after the command asked for it.
func lived(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: lived SECONDS")
	}
	want, err := time.ParseDuration(args[0] + "s")
	ts.Check(err)
	at := map[string]time.Time{}
	for _, m := range times.FindAllStringSubmatch(ts.ReadFile("stdout"), -1) {
		at[m[1]], err = time.Parse(time.RFC3339, m[2])
		ts.Check(err)
	}
	if life := at["expiresAt"].Sub(at["createdAt"]); life > want || life < want-10*time.Second { // the request takes time
		ts.Fatalf("the token lives %s, want %s", life, want)
	}
}

// deadline is the maximum time to wait for an event, even on a busy machine.
const deadline = 3 * time.Minute

// exitCode implements the script command "code N COMMAND...", which executes a command
// and checks that its exit code is N.
func exitCode(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: code N command...")
	}
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		exit, ok := errors.AsType[*exec.ExitError](err)
		if !ok {
			ts.Fatalf("%v", err)
		}
		got = exit.ExitCode()
	}
	if fmt.Sprint(got) != args[0] {
		ts.Fatalf("exit code %d, want %s", got, args[0])
	}
}

// server is a process that executes 'stint serve'.
type server struct {
	cmd   *exec.Cmd
	ended chan error
	log   strings.Builder // standard error; read only after the process has exited
}

// running contains the server of each script, by the working folder of the script.
var running registry

type registry struct{ m sync.Map }

func (r *registry) set(work string, s *server) { r.m.Store(work, s) }

func (r *registry) get(ts *testscript.TestScript) *server {
	s, ok := r.m.Load(ts.Getenv("WORK"))
	if !ok {
		ts.Fatalf("no server was started")
	}
	return s.(*server)
}

// serve implements the script command "serve [--anonymous] [flags...]". It starts a
// server with the data folder $WORK/data on a free port, sets SERVER and STINT_DATA,
// and logs in unless --anonymous is given.
func serve(ts *testscript.TestScript, neg bool, args []string) {
	login := true
	if len(args) > 0 && args[0] == "--anonymous" {
		login, args = false, args[1:]
	}
	data := ts.MkAbs("data")
	s := &server{ended: make(chan error, 1)}
	s.cmd = exec.Command(filepath.Join(bin, "stint"), append([]string{"serve", "--json", "--data", data, "--listen", "127.0.0.1:0"}, args...)...)
	s.cmd.Env = append(os.Environ(), "HOME="+ts.Getenv("HOME"))
	for _, name := range []string{"STINT_CLAUDE_CODE_BIN", "STINT_CODEX_BIN", "STINT_ACP_BIN"} {
		s.cmd.Env = append(s.cmd.Env, name+"="+ts.Getenv(name))
	}
	s.cmd.Stderr = &s.log
	out, err := s.cmd.StdoutPipe()
	ts.Check(err)
	ts.Check(s.cmd.Start())
	line := make(chan []byte, 1)
	go func() {
		first, _ := bufio.NewReader(out).ReadBytes('\n') // incomplete or empty if the server exits
		line <- first
		s.ended <- s.cmd.Wait()
	}()
	ts.Defer(func() { s.stop(ts) })
	select {
	case first := <-line:
		var info struct{ URL string }
		if err := json.Unmarshal(first, &info); err != nil || info.URL == "" {
			err := <-s.ended
			s.ended <- err
			ts.Fatalf("the server did not start: %v\n%s", err, s.log.String())
		}
		ts.Setenv("SERVER", info.URL)
	case <-time.After(deadline):
		ts.Fatalf("the server is not ready in time")
	}
	ts.Setenv("STINT_DATA", data)
	running.set(ts.Getenv("WORK"), s)
	if login {
		ts.Check(ts.Exec("stint", "auth", "login"))
	}
}

// stop implements the script command halt, which stops the server with SIGTERM. The
// name stop is already a command of testscript.
func stop(ts *testscript.TestScript, _ bool, _ []string) {
	running.get(ts).stop(ts)
}

func (s *server) stop(ts *testscript.TestScript) {
	if s.cmd == nil {
		return
	}
	ts.Check(s.cmd.Process.Signal(syscall.SIGTERM))
	select {
	case err := <-s.ended:
		s.cmd = nil
		if err != nil {
			ts.Fatalf("the server exited with %v\n%s", err, s.log.String())
		}
	case <-time.After(deadline):
		_ = s.cmd.Process.Kill()
		s.cmd = nil
		ts.Fatalf("the server did not exit in time")
	}
}

// capture returns the script command "capture NAME [PATTERN]". The command removes the
// white space around the last output of stream and sets the variable NAME to the last
// group of the first match of PATTERN. If PATTERN has no groups, the value is the whole
// match; without PATTERN, it is the whole output.
func capture(stream string) func(*testscript.TestScript, bool, []string) {
	return func(ts *testscript.TestScript, neg bool, args []string) {
		if neg || len(args) < 1 || len(args) > 2 {
			ts.Fatalf("usage: capture NAME [PATTERN]")
		}
		captureFrom(ts, strings.TrimSpace(ts.ReadFile(stream)), args)
	}
}

func captureFrom(ts *testscript.TestScript, found string, args []string) {
	if len(args) == 2 {
		pattern, err := regexp.Compile("(?m)" + args[1])
		ts.Check(err)
		match := pattern.FindStringSubmatch(found)
		if match == nil {
			ts.Fatalf("%s does not match:\n%s", args[1], found)
		}
		found = match[len(match)-1]
	}
	ts.Setenv(args[0], found)
}

// until implements the script command "until PATTERN COMMAND...", which repeats a
// command until it succeeds with an output that matches PATTERN.
func until(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: until PATTERN command...")
	}
	pattern, err := regexp.Compile("(?m)" + args[0])
	ts.Check(err)
	for end := time.Now().Add(deadline); time.Now().Before(end); <-time.After(50 * time.Millisecond) {
		if ts.Exec(args[1], args[2:]...) == nil && pattern.MatchString(ts.ReadFile("stdout")) {
			return
		}
	}
	ts.Fatalf("%s did not appear in time", args[0])
}

// deferred implements the script command "defer COMMAND...", which executes a command at
// the end of the script, whatever its exit code.
func deferred(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: defer command...")
	}
	ts.Defer(func() { _ = ts.Exec(args[0], args[1:]...) })
}

// empty implements the script command "empty DIR", which checks that a folder has no
// entries. "! empty DIR" checks that it has entries.
func empty(ts *testscript.TestScript, neg bool, args []string) {
	entries, err := os.ReadDir(ts.MkAbs(args[0]))
	ts.Check(err)
	if (len(entries) == 0) == neg {
		ts.Fatalf("%s has %d entries: %v", args[0], len(entries), entries)
	}
}
