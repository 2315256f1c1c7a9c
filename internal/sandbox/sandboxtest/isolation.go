package sandboxtest

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/stint-dev/stint/internal/sandbox"
)

// hostileCases are attacks on the host and on other sandboxes.
var hostileCases = map[string]func(*world){
	"the system is read-only":         systemReadOnly,
	"host files are hidden":           hostHidden,
	"/tmp is private":                 tmpPrivate,
	"no network access":               noNetwork,
	"loopback works":                  func(w *world) { w.succeed(w.spec(), "loopback") },
	"only the loopback interface":     func(w *world) { w.want("interfaces", "lo\n", w.succeed(w.spec(), "interfaces")) },
	"host processes are hidden":       noHostProcesses,
	"the server's secrets are hidden": serverSecrets,
	"no privileges":                   noRights,
	"kill all processes":              killAllProcesses,
	"signals to init":                 signalsToInit,
	"mount over a symbolic link":      linkForMount,
	"no inherited descriptors":        noInheritedDescriptors,
}

// controls check that attacks succeed without a sandbox. Therefore an attack that fails
// inside a sandbox fails because of the sandbox.
var controls = map[string]func(*world){}

func systemReadOnly(w *world) {
	w.succeed(w.spec(), "try-write", "/x", "/usr/x", "/usr/bin/env", "/etc/x", "/etc/passwd", "/home/x", "/run/x", "/dev/x", "/opt/x", "/var/x", "/proc/x")
}

func hostHidden(w *world) {
	hidden := []string{"/root", "/boot", "/sys/kernel", "/lost+found", "/etc/shadow", "/etc/ssh", "/etc/ssl/private", "/etc/sudoers", "/var/run/docker.sock", "/run/docker.sock", "/dev/kvm", "/dev/mem", "/dev/vda", "/srv", w.dir}
	if users, err := os.ReadDir("/home"); err == nil {
		for _, u := range users {
			hidden = append(hidden, filepath.Join("/home", u.Name()))
		}
	}
	w.succeed(w.spec(), append([]string{"try-open"}, hidden...)...)
}

func tmpPrivate(w *world) {
	name := "/tmp/" + newMarker()
	first := w.spec()
	r := w.launch(first, "write", name, "x")
	w.wantExit(r, sandbox.Exit{Cause: sandbox.Exited})
	w.succeed(w.spec(), "try-open", name)
	if _, err := os.Lstat(name); err == nil {
		w.Errorf("%s exists on the host", name)
	}
}

// noNetwork checks that a sandbox can connect neither to the internet nor to the host. The
// test listens on the host's addresses and on Unix sockets, so refused connections are a
// result of the sandbox.
func noNetwork(w *world) {
	targets := []string{"tcp=1.1.1.1:53", "tcp=169.254.169.254:80", "tcp=[2606:4700:4700::1111]:53"}
	for _, address := range append([]string{"127.0.0.1", "::1"}, hostAddresses(w)...) {
		l, err := net.Listen("tcp", net.JoinHostPort(address, "0"))
		if err != nil {
			continue // the address is not available
		}
		defer l.Close()
		targets = append(targets, "tcp="+l.Addr().String())
	}
	abstract, err := net.Listen("unix", "@"+newMarker())
	w.must(err)
	defer abstract.Close()
	path := filepath.Join(w.dir, "s")
	named, err := net.Listen("unix", path)
	w.must(err)
	defer named.Close()
	targets = append(targets, "unix="+abstract.Addr().String(), "unix="+path)
	w.succeed(w.spec(), append([]string{"connect"}, targets...)...)
}

func hostAddresses(w *world) []string {
	list, err := net.InterfaceAddrs()
	w.must(err)
	var out []string
	for _, a := range list {
		if n, ok := a.(*net.IPNet); ok && n.IP.IsGlobalUnicast() {
			out = append(out, n.IP.String())
		}
	}
	return out
}

func noHostProcesses(w *world) {
	got := w.succeed(w.spec(), "processes")
	lines := strings.Split(strings.TrimSpace(got), "\n")
	if len(lines) > 2 || !strings.Contains(got, programName+" processes") {
		w.Errorf("visible processes: %q", lines)
	}
}

func serverSecrets(w *world) {
	if os.Getenv(secretEnv) != secret {
		w.Fatal("the suite's environment has no secret")
	}
	w.succeed(w.spec(), "secrets", secret)
}

func noRights(w *world) {
	want := "Uid:1000 1000 1000 1000\nGid:1000 1000 1000 1000\n" +
		"CapInh:0000000000000000\nCapPrm:0000000000000000\nCapEff:0000000000000000\nCapBnd:0000000000000000\nCapAmb:0000000000000000\n" +
		"NoNewPrivs:1\nSeccomp:2\n"
	w.want("status", want, w.succeed(w.spec(), "print-status"))
}

func killAllProcesses(w *world) {
	outside := exec.Command("sleep", "600")
	w.must(outside.Start())
	r := w.launch(w.spec(), "kill-all", strconv.Itoa(outside.Process.Pid), strconv.Itoa(os.Getpid()))
	w.wantExit(r, sandbox.Exit{Code: 137, Signal: 9, Cause: sandbox.Signalled})
	if err := outside.Process.Signal(syscall.Signal(0)); err != nil {
		w.Errorf("a process outside was killed: %v", err)
	}
	w.must(outside.Process.Kill())
	_ = outside.Wait() // returns an error, because the process was killed
}

func signalsToInit(w *world) {
	w.wantExit(w.launch(w.spec(), "signal-init"), sandbox.Exit{Cause: sandbox.Exited})
}

// linkForMount checks that Prepare refuses a mount if its target contains a symbolic
// link, which an earlier run may have created in the workspace.
func linkForMount(w *world) {
	victim := filepath.Join(w.dir, "victim")
	w.must(os.Mkdir(victim, 0o700))
	for _, target := range []string{victim, "elsewhere", "../../../../../../../../etc"} {
		s := w.spec()
		w.must(os.MkdirAll(filepath.Join(s.Workspace, "elsewhere", "put"), 0o700))
		w.must(os.Symlink(target, filepath.Join(s.Workspace, "in")))
		s.Mounts = append(s.Mounts, sandbox.Mount{Source: w.suite.tools, Target: sandbox.WorkspaceDir + "/in/put"})
		if b, err := w.driver.Prepare(w.Context(), s); err == nil {
			w.Errorf("a mount over a symbolic link to %s succeeds", target)
			w.must(b.Close(w.Context()))
		}
	}
	entries, err := os.ReadDir(victim)
	w.must(err)
	if len(entries) > 0 {
		w.Errorf("the link was followed: %v", entries)
	}
}

// noInheritedDescriptors checks that the command inherits no open file of the server.
func noInheritedDescriptors(w *world) {
	f, err := os.Open(w.dir)
	w.must(err)
	defer f.Close()
	got := w.succeed(w.spec(), "descriptors")
	streams := 0 // number of standard streams found; gVisor shows each as "host:" with a number
	for line := range strings.Lines(got) {
		if w.suite.OwnKernel && strings.HasPrefix(line, "host:") && streams < 3 {
			streams++
			continue
		}
		if !strings.HasPrefix(line, "pipe:") && !strings.HasPrefix(line, "/dev/null") && !strings.HasPrefix(line, "anon_inode:") && !strings.HasPrefix(line, "/proc/") {
			w.Errorf("an open file was inherited: %s", line)
		}
	}
}

type limitCase struct {
	holds func(sandbox.Enforced) bool
	run   func(*world)
}

// limitCases test resource limits. The suite runs a case if its holds function returns
// true for the limits that the harness declares.
var limitCases = map[string]limitCase{
	"memory limit":       {func(e sandbox.Enforced) bool { return e.Memory }, outOfMemory},
	"fork bomb":          {func(e sandbox.Enforced) bool { return e.Pids }, forkBomb},
	"disk limit":         {func(e sandbox.Enforced) bool { return e.Disk }, diskFull},
	"disk limit of /tmp": {func(e sandbox.Enforced) bool { return e.Disk }, diskFullTmp},
}

func outOfMemory(w *world) {
	s := w.spec()
	s.Resources.Memory = 128 << 20
	r := w.launch(s, "allocate", "512")
	e := w.wait(r)
	if e.Cause != sandbox.OOMKilled || e.Code != 137 {
		w.Errorf("exit %+v, want cause %s; stderr %s", e, sandbox.OOMKilled, r.stderr)
	}
	u, err := r.Usage(w.Context())
	w.must(err)
	if u.OOMKills < 1 || u.MemoryPeak < 64<<20 {
		w.Errorf("usage %+v has no OOM kill", u)
	}
	ok := w.spec()
	ok.Resources.Memory = 128 << 20
	w.want("within the limit", "ate 16 MB\n", w.succeed(ok, "allocate", "16"))
}

func forkBomb(w *world) {
	s := w.spec()
	s.Resources.Pids = 64
	r := w.launch(s, "fork", "200")
	w.wait(r)
	if got := r.stdout.String(); got == "200" {
		w.Error("200 processes were started with a limit of 64")
	}
	w.kill(r, 0)
}

func diskFull(w *world) {
	s := w.spec()
	s.Resources.Disk = 8 << 20
	r := w.launch(s, "fill", sandbox.WorkspaceDir, "24")
	e := w.wait(r)
	if e.Cause != sandbox.DiskFull {
		w.Errorf("exit %+v, want cause %s; stderr %s", e, sandbox.DiskFull, r.stderr)
	}
}

func diskFullTmp(w *world) {
	s := w.spec()
	s.Resources.Disk = 8 << 20
	e := w.wait(w.launch(s, "fill", "/tmp", "24"))
	if e.Cause != sandbox.DiskFull {
		w.Errorf("exit %+v, want cause %s", e, sandbox.DiskFull)
	}
}
