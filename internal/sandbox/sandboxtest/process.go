package sandboxtest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/stint-dev/stint/internal/sandbox"
)

// processCases test drivers that run commands as processes.
var processCases = map[string]func(*world){
	"signals":                         signals,
	"search path":                     searchPath,
	"not a program":                   notAProgram,
	"missing directory":               missingDirectory,
	"streams reopened by name":        streamsByName,
	"an orphan keeps the output open": orphanKeepsOutputOpen,
	"all child processes are killed":  childProcessesKilled,
	"child processes end on Close":    childProcessesEndOnClose,
	"usage grows":                     usageGrows,
	"files for the agent":             agentFiles,
	"read-only mount":                 readOnlyMount,
	"exit under load":                 exitUnderLoad,
}

func signals(w *world) {
	for _, n := range []int{1, 2, 9} {
		r := w.launch(w.spec(), "signal", fmt.Sprint(n))
		w.wantExit(r, sandbox.Exit{Code: 128 + n, Signal: n, Cause: sandbox.Signalled})
	}
}

func searchPath(w *world) {
	c := sandbox.Command{Argv: []string{programName, "args", "found"}, Env: []string{"PATH=/nowhere:" + toolsDir, noExitDelay}}
	r := w.start(w.prepare(w.spec()), c)
	w.wantExit(r, sandbox.Exit{Cause: sandbox.Exited})
	w.want("output", "found\x00", r.stdout.String())
	home := w.spec()
	w.must(os.MkdirAll(filepath.Join(home.Home, ".local/bin"), 0o700))
	w.writeProgram(filepath.Join(home.Home, ".local/bin/mine"), "#!"+toolsDir+"/"+programName+" args\n")
	c = sandbox.Command{Argv: []string{"mine", "x"}, Env: []string{"PATH=" + sandbox.HomeDir + "/.local/bin", noExitDelay}}
	r = w.start(w.prepare(home), c)
	w.wantExit(r, sandbox.Exit{Cause: sandbox.Exited})
}

func notAProgram(w *world) {
	for name, content := range map[string]string{"plain": "text", "garbage": "\x7fELFgarbage", "lost": "#!/no/such/interpreter\n"} {
		s := w.spec()
		mode := os.FileMode(0o755)
		if name == "plain" {
			mode = 0o644
		}
		w.must(os.WriteFile(filepath.Join(s.Workspace, name), []byte(content), mode))
		w.wantSentence(w.prepare(s).Start(w.Context(), sandbox.Command{Argv: []string{"./" + name}}))
	}
}

func missingDirectory(w *world) {
	c := command("pwd")
	c.Dir = "/no/such/folder"
	w.wantSentence(w.prepare(w.spec()).Start(w.Context(), c))
}

func streamsByName(w *world) {
	r := w.launch(w.spec(), "reopen")
	w.wantExit(r, sandbox.Exit{Cause: sandbox.Exited})
	w.want("stdout", "/dev/stdout", r.stdout.String())
	w.want("stderr", "/dev/stderr", r.stderr.String())
}

func newMarker() string { return fmt.Sprintf("stint-mark-%d", time.Now().UnixNano()) }

func (w *world) wantGone(mark string) {
	w.Helper()
	if left := processesWithMarker(mark); len(left) > 0 {
		w.Errorf("processes are still running: %v", left)
	}
}

func orphanKeepsOutputOpen(w *world) {
	m := newMarker()
	r := w.launch(w.spec(), "leave-child", m)
	w.wantExit(r, sandbox.Exit{Cause: sandbox.Exited})
	if !strings.Contains(r.stdout.String(), "final output") {
		w.Errorf("the output before the exit is missing: %q", r.stdout)
	}
	if len(processesWithMarker(m)) == 0 && !w.suite.OwnKernel {
		w.Error("the orphan ended by itself")
	}
	w.kill(r, 20*time.Millisecond)
	w.wantGone(m)
}

func childProcessesKilled(w *world) {
	m := newMarker()
	r := w.launch(w.spec(), "process-tree", m)
	w.awaitText(r.stdout, "ready")
	if n := len(processesWithMarker(m)); n < 9 && !w.suite.OwnKernel {
		w.Errorf("%d processes of the tree are visible on the host, want 9", n)
	}
	w.kill(r, 20*time.Millisecond)
	w.wantGone(m)
	w.wantExit(r, killedExit)
}

func childProcessesEndOnClose(w *world) {
	m := newMarker()
	r := w.launch(w.spec(), "leave-child", m)
	w.wantExit(r, sandbox.Exit{Cause: sandbox.Exited})
	w.must(r.Close(w.Context()))
	w.wantGone(m)
}

func usageGrows(w *world) {
	s := w.spec()
	s.Resources = sandbox.Resources{CPU: 1, Memory: 512 << 20, Pids: 64, Disk: 1 << 30}
	r := w.launch(s, "spin")
	w.awaitText(r.stdout, "ready")
	first, err := r.Usage(w.Context())
	w.must(err)
	deadline := time.Now().Add(testTimeout)
	for u := first; u.CPU <= first.CPU; {
		if time.Now().After(deadline) {
			w.Fatalf("the CPU time stays %v", u.CPU)
		}
		if u, err = r.Usage(w.Context()); err != nil {
			w.Fatal(err)
		}
	}
	if first.Memory <= 0 || first.MemoryLimit != 512<<20 || first.DiskLimit != 1<<30 || first.Pids < 1 {
		w.Errorf("usage %+v", first)
	}
	w.kill(r, testTimeout)
	after, err := r.Usage(w.Context())
	w.must(err)
	if after.CPU < first.CPU {
		w.Errorf("the CPU time decreases from %v to %v at the end", first.CPU, after.CPU)
	}
}

func agentFiles(w *world) {
	s := w.spec()
	w.must(os.WriteFile(filepath.Join(s.Run, "prompt.md"), []byte("do it"), 0o644))
	w.must(os.WriteFile(filepath.Join(s.Run, "empty"), nil, 0o644))
	path := sandbox.RunDir + "/prompt.md"
	w.want("file", "do it", w.succeed(s, "read", path, sandbox.RunDir+"/empty"))
	again := w.spec()
	again.Run = s.Run
	w.succeed(again, "try-write", path, sandbox.RunDir+"/new")
}

func readOnlyMount(w *world) {
	s := w.spec()
	given := filepath.Join(w.dir, "given")
	w.must(os.Mkdir(given, 0o777))
	w.must(os.WriteFile(filepath.Join(given, "f"), []byte("data"), 0o666))
	s.Mounts = append(s.Mounts, sandbox.Mount{Source: given, Target: "/data"})
	w.succeed(s, "try-write", "/data/f", "/data/new")
	w.want("on the host", "data", w.hostFile(given, "f"))
}

// exitUnderLoad checks the exit codes of commands in 12 sandboxes that run in parallel.
func exitUnderLoad(w *world) {
	var list []*running
	for i := range 12 {
		list = append(list, w.launch(w.spec(), "exit", fmt.Sprint(i)))
	}
	for i, r := range list {
		w.wantExit(r, sandbox.Exit{Code: i, Cause: sandbox.Exited})
		w.must(r.Close(w.Context()))
	}
}
