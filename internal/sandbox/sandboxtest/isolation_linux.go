package sandboxtest

import (
	"context"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stint-dev/stint/internal/sandbox"
)

func init() {
	maps.Copy(hostileCases, map[string]func(*world){
		"kernel files are read-only":               kernelFilesReadOnly,
		"only harmless devices":                    onlyHarmlessDevices,
		"the server's folder is hidden":            serverFolderHidden,
		"sandboxes are isolated from each other":   sandboxesIsolated,
		"the host's shared memory is hidden":       hostSegmentHidden,
		"the host's processes cannot be signaled":  hostProcessesUnreachable,
		"working directories outside the sandbox":  workingDirectories,
		"the init program cannot be changed":       initUnchanged,
		"left files are harmless":                  leftFiles,
		"arguments that are too long":              argumentsTooLong,
		"the environment affects the command only": environmentOnly,
	})
	controls["kernel files can be written"] = kernelFilesControl
	controls["canary files are found"] = canaryControl
	controls["connections succeed"] = connectControl
	controls["secrets are found"] = func(w *world) { w.expectFoundOnHost("contains it", "secrets", secret) }
	controls["paths are found"] = func(w *world) { w.expectFoundOnHost("exists", "try-open", w.dir) }
	controls["files can be written"] = func(w *world) { w.expectFoundOnHost("can be written", "try-write", filepath.Join(w.dir, "x")) }
	controls["shared memory is found"] = segmentControl
	controls["processes can be signaled"] = func(w *world) { w.expectFoundOnHost("can be reached", "signal-processes", strconv.Itoa(os.Getpid())) }
	controls["folders can be reached"] = func(w *world) { w.expectFoundOnHost("can be reached", "leave-directory", w.dir) }
	controls["the program can be changed"] = func(w *world) {
		if os.Geteuid() != 0 {
			return // the program may belong to another user, and the attack then fails without a sandbox too
		}
		w.expectFoundOnHost("can be given", "modify-parent")
	}
	controls["left files are found"] = leftFilesControl
}

func kernelFilesReadOnly(w *world) {
	got := w.succeed(w.spec(), "writable", "/proc", "/sys")
	if w.suite.OwnKernel {
		return // the files are settings of the sandbox's own kernel
	}
	for path := range strings.Lines(got) {
		w.Errorf("%s is writable", strings.TrimSpace(path))
	}
}

func kernelFilesControl(w *world) {
	got, err := w.runInNamespaces("writable", "/proc/sys/user", "/proc/sys/kernel")
	w.must(err)
	if !strings.Contains(got, "/proc/sys/user/max_user_namespaces") {
		w.Errorf("without restrictions only these are writable: %q", got)
	}
}

// harmlessDevices are the major and minor numbers of the allowed devices: null, zero,
// full, random, urandom, tty, and ptmx.
var harmlessDevices = []string{"1:3", "1:5", "1:7", "1:8", "1:9", "5:0", "5:2"}

func onlyHarmlessDevices(w *world) {
	for line := range strings.Lines(w.succeed(w.spec(), "devices")) {
		f := strings.Fields(line)
		if f[0] == "char" && (slices.Contains(harmlessDevices, f[1]) || strings.HasPrefix(f[1], "136:")) || w.suite.OwnKernel && f[0] == "char" {
			continue
		}
		w.Errorf("unexpected device: %s", line)
	}
}

// makeCanaries creates files with the same unique name in folders of the host in which a
// server or another program stores data. It skips folders to which it cannot write. It
// returns the name and the paths of the files.
func (w *world) makeCanaries() (name string, paths []string) {
	w.Helper()
	name = "canary-" + newMarker()
	for _, dir := range []string{w.dir, os.TempDir(), "/tmp", "/var/tmp", "/dev/shm", "/root", "/run", "/home", "/srv", "/mnt"} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(name), 0o644); err == nil {
			paths = append(paths, path)
			w.Cleanup(func() { _ = os.Remove(path) })
		}
	}
	if len(paths) < 2 {
		w.Fatalf("canary files could only be created at %q", paths)
	}
	return name, paths
}

// serverFolderHidden checks that a folder that contains a server's database, key, and
// socket is hidden from sandboxes.
func serverFolderHidden(w *world) {
	name, paths := w.makeCanaries()
	for _, f := range []string{"stint.db", "stint.db-wal", "key"} {
		path := filepath.Join(w.dir, f)
		w.must(os.WriteFile(path, []byte(secret), 0o600))
		paths = append(paths, path)
	}
	l, err := net.Listen("unix", filepath.Join(w.dir, "stint.sock"))
	w.must(err)
	defer l.Close()
	paths = append(paths, l.Addr().String(), w.dir)
	w.succeed(w.spec(), append([]string{"find-canary", name}, paths...)...)
	w.succeed(w.spec(), append([]string{"try-open"}, paths...)...)
	w.succeed(w.spec(), "connect", "unix="+l.Addr().String())
}

func canaryControl(w *world) {
	name, paths := w.makeCanaries()
	w.expectFoundOnHost("the canary is visible", "find-canary", name, paths[0])
}

// sandboxesIsolated checks that a sandbox cannot access the files, sockets, shared memory,
// and processes of another sandbox.
func sandboxesIsolated(w *world) {
	name, key := newMarker(), strconv.Itoa(0x5717_0000+os.Getpid()%0x8000)
	s := w.spec()
	c := command("victim", name, key)
	c.Env = append(c.Env, "OTHERS_SECRET="+name)
	r := w.start(w.prepare(s), c)
	w.awaitText(r.stdout, "\n")
	address, _, _ := strings.Cut(r.stdout.String(), "\n") // the following lines are not part of the address
	attacker := w.spec()
	w.succeed(attacker, "try-open", "/tmp/"+name, "/dev/shm/"+name, "/home/agent/"+name, sandbox.WorkspaceDir+"/"+name, s.Workspace, s.Home, filepath.Join(s.Workspace, name))
	w.succeed(w.spec(), "connect", "unix=@"+name, "tcp="+address)
	w.succeed(w.spec(), "find-segment", key)
	w.succeed(w.spec(), "secrets", name)
	w.succeed(w.spec(), "find-canary", name)
	if got := w.succeed(w.spec(), "processes"); strings.Contains(got, "victim") {
		w.Errorf("the other sandbox's processes are visible: %q", got)
	}
	if got := w.succeed(w.spec(), "interfaces"); got != "lo\n" {
		w.Errorf("interfaces %q", got)
	}
	w.kill(r, 0)
}

func connectControl(w *world) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	w.must(err)
	defer l.Close()
	w.expectFoundOnHost("answers", "connect", "tcp="+l.Addr().String())
	abstract, err := net.Listen("unix", "@"+newMarker())
	w.must(err)
	defer abstract.Close()
	w.expectFoundOnHost("answers", "connect", "unix="+abstract.Addr().String())
}

func (w *world) makeHostSegment() string {
	w.Helper()
	key := strconv.Itoa(0x5718_0000 + int(time.Now().UnixNano()%0x10000))
	w.must(makeSegment(key))
	w.Cleanup(func() { dropSegment(key) })
	return key
}

func hostSegmentHidden(w *world) { w.succeed(w.spec(), "find-segment", w.makeHostSegment()) }

func segmentControl(w *world) {
	w.expectFoundOnHost("the segment", "find-segment", w.makeHostSegment())
}

// hostProcessesUnreachable checks that a sandbox cannot signal processes of the host by
// their IDs on the host.
func hostProcessesUnreachable(w *world) {
	victim := exec.Command("sleep", "600")
	w.must(victim.Start())
	defer func() {
		w.must(victim.Process.Kill())
		_ = victim.Wait() // returns an error, because the process was killed
	}()
	numbers := []string{strconv.Itoa(victim.Process.Pid), strconv.Itoa(os.Getpid()), strconv.Itoa(os.Getppid())}
	r := w.launch(w.spec(), append([]string{"signal-processes"}, numbers...)...)
	w.wantExit(r, sandbox.Exit{Cause: sandbox.Exited})
	if !aliveOnHost(victim.Process.Pid) {
		w.Error("a process of the host was killed")
	}
}

// workingDirectories starts commands in working directories that may refer to folders
// of the host that init has open. Each command must either run inside the sandbox or
// fail to start.
func workingDirectories(w *world) {
	dirs := []string{"/proc/1/cwd", "/proc/1/root", "/proc/self/cwd", "/proc/self/root", "/proc/self/root/../..", "/proc/thread-self/root"}
	for fd := range 24 {
		dirs = append(dirs, fmt.Sprintf("/proc/self/fd/%d", fd), fmt.Sprintf("/proc/self/fd/%d/../../..", fd))
	}
	f, err := os.Open(w.dir) // a descriptor that must not be inherited
	w.must(err)
	defer f.Close()
	started := 0
	for _, dir := range dirs {
		b := w.prepare(w.spec())
		c := command("leave-directory", w.dir)
		c.Dir = dir
		r := &running{b, newOutput(), newOutput()}
		c.Stdout, c.Stderr = r.stdout, r.stderr
		if err := b.Start(w.Context(), c); err == nil {
			started++
			w.wantExit(r, sandbox.Exit{Cause: sandbox.Exited})
		}
		w.must(b.Close(w.Context()))
	}
	if started == 0 {
		w.Error("no working directory was accepted")
	}
}

// initUnchanged checks that an agent cannot change the init program through a script
// that names this program as its interpreter, for example by "#!/proc/self/exe".
func initUnchanged(w *world) {
	for i, link := range []string{"/proc/self/exe", "/proc/1/exe", "/proc/thread-self/exe", "/proc/self/fd/0"} {
		s := w.spec()
		name := fmt.Sprintf("script%d", i)
		w.must(os.WriteFile(filepath.Join(s.Workspace, name), []byte("#!"+link+" "+scriptArgument+"\n"), 0o755))
		c := sandbox.Command{Argv: []string{"./" + name}, Env: []string{"PATH=" + toolsDir, noExitDelay, scriptArgument + "=1"}}
		b := w.prepare(s)
		r := &running{b, newOutput(), newOutput()}
		c.Stdout, c.Stderr = r.stdout, r.stderr
		if err := b.Start(w.Context(), c); err != nil {
			w.wantSentence(err)
			continue
		}
		e := w.wait(r)
		if w.suite.OwnKernel {
			e.Code = 0 // any code is accepted, because the interpreter is not this test binary
		}
		w.want("exit", fmt.Sprint(sandbox.Exit{Cause: sandbox.Exited}), fmt.Sprint(e))
	}
}

// leftFiles checks that files left behind by a hostile agent affect neither the snapshot,
// nor the next run, nor the removal of the workspace.
func leftFiles(w *world) {
	s := w.spec()
	r := w.launch(s, "leave-files")
	w.wantExit(r, sandbox.Exit{Cause: sandbox.Exited})
	w.kill(r, 0)
	w.must(r.Close(w.Context()))
	w.wantHarmless(s.Workspace)
	next := w.spec()
	next.Workspace = s.Workspace
	w.succeed(next, "exit", "0")
	w.must(sandbox.Remove(s.Workspace))
}

// leftFilesControl checks that the program leave-files creates all its files if it runs
// without a sandbox.
func leftFilesControl(w *world) {
	_, err := w.runInNamespaces("leave-files")
	w.must(err)
	for _, name := range append([]string{"link-to-shadow", "loop", "hard-2", "fifo", "socket", "sparse", "setuid", "setgid", "closed", "deep/d/d/d"}, unusualNames...) {
		if _, err := os.Lstat(filepath.Join(w.dir, name)); err != nil {
			w.Errorf("not created: %v", err)
		}
	}
	st, err := os.Stat(filepath.Join(w.dir, "setuid"))
	w.must(err)
	if st.Mode()&os.ModeSetuid == 0 {
		w.Errorf("the setuid file has mode %v", st.Mode())
	}
	w.must(sandbox.Remove(w.dir))
}

// argumentsTooLong checks that Start returns a short error message if a command's
// arguments, variables, or paths exceed the kernel's limits.
func argumentsTooLong(w *world) {
	long, many := strings.Repeat("x", 256<<10), make([]string, 40_000)
	for i := range many { // 8 MB in total; the kernel's limit is 6 MB
		many[i] = strings.Repeat("y", 200)
	}
	for name, change := range map[string]func(*sandbox.Command){
		"a long argument":        func(c *sandbox.Command) { c.Argv = append(c.Argv, long) },
		"many arguments":         func(c *sandbox.Command) { c.Argv = append(c.Argv, many...) },
		"a long variable":        func(c *sandbox.Command) { c.Env = append(c.Env, "X="+long) },
		"many variables":         func(c *sandbox.Command) { c.Env = append(c.Env, many...) },
		"a zero in an argument":  func(c *sandbox.Command) { c.Argv = append(c.Argv, "a\x00b") },
		"a long name of program": func(c *sandbox.Command) { c.Argv[0] = "/" + long },
		"a long directory":       func(c *sandbox.Command) { c.Dir = "/" + long },
	} {
		b := w.prepare(w.spec())
		c := command("exit", "0")
		change(&c)
		ctx, cancel := context.WithTimeout(w.Context(), testTimeout)
		err := b.Start(ctx, c)
		cancel()
		if err == nil || ctx.Err() == context.DeadlineExceeded {
			w.Errorf("%s: started, or not refused in time: %v", name, err)
			continue
		}
		w.wantSentence(err)
		if len(err.Error()) > 4<<10 {
			w.Errorf("%s: the message has %d bytes", name, len(err.Error()))
		}
		w.must(b.Close(w.Context()))
	}
}

// environmentOnly checks that variables that affect how programs start, such as
// LD_PRELOAD, reach only the command and not the programs that start the command.
func environmentOnly(w *world) {
	s := w.spec()
	w.must(os.WriteFile(filepath.Join(s.Workspace, "evil.so"), []byte("no library"), 0o755))
	c := command("env")
	c.Env = []string{
		"BASH_ENV=/workspace/evil", "GOCOVERDIR=/workspace", "GODEBUG=inittrace=1", "GOMAXPROCS=1", "GOTRACEBACK=crash", "HOME=/proc/1/root",
		"LD_AUDIT=/workspace/evil.so", "LD_LIBRARY_PATH=/workspace", "LD_PRELOAD=/workspace/evil.so", "PATH=" + toolsDir,
	}
	r := w.start(w.prepare(s), c)
	w.wantExit(r, sandbox.Exit{Cause: sandbox.Exited})
	w.want("the command's environment", strings.Join(c.Env, "\n"), r.stdout.String())
}
