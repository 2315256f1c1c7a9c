package hostile_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/e2e/installation"
)

// escapeAttacks are attempts to leave the sandbox.
var escapeAttacks = []attack{
	{"the host's files", hostFiles},
	{"the server's folder, sockets, and environment", serverParts},
	{"another organisation's files", otherTenant},
	{"system calls", systemCalls},
	{"killing all processes", killAll},
	{"the network of the host", hostNetwork},
}

// checkDenied runs a script that prints a line that begins with ESCAPED for each
// successful attempt. It fails the test for each such line, and if the script does not
// finish.
func (w *tenant) checkDenied(script string) {
	w.Helper()
	out := w.runOutput(script)
	for _, l := range lines(out, "ESCAPED") {
		w.Error(l)
	}
	if !strings.Contains(out, "tried it all") {
		w.Errorf("the script did not finish: %q", out)
	}
}

func hostFiles(w *tenant) {
	canary := filepath.Join(os.TempDir(), mark(w))
	installation.Check(w, os.WriteFile(canary, []byte("canary-of-the-host"), 0o666))
	defer os.Remove(canary)
	w.checkDenied(`
for f in /etc/shadow /etc/sudoers /root /boot /srv /lost+found /sys/kernel /dev/mem /dev/kmem /dev/sda /dev/vda /dev/kvm /proc/kcore /var/run/docker.sock /run/docker.sock; do
	head -c 1 "$f" > /dev/null 2>&1 && echo "ESCAPED $f can be read"
	ls "$f"/* > /dev/null 2>&1 && echo "ESCAPED $f can be listed"
	(echo x >> "$f") 2> /dev/null && echo "ESCAPED $f can be written"
done
for f in ` + quote(canary) + ` /proc/self/root` + quote(canary) + ` /proc/1/root` + quote(canary) + `; do
	grep -qs canary-of-the-host "$f" && echo "ESCAPED $f can be read"
	(echo x >> "$f") 2> /dev/null
done
for f in /usr/bin/env /etc/passwd /bin/sh /etc/ld.so.preload /proc/sys/kernel/core_pattern /proc/sysrq-trigger /sys/kernel/uevent_helper /sys/fs/cgroup/release_agent; do
	(: >> "$f") 2> /dev/null && echo "ESCAPED $f can be written"
done
for d in /home/*; do [ "$d" = /home/agent ] || echo "ESCAPED $d is there"; done
[ "$(id -u)" = 0 ] && echo "ESCAPED to root"
for f in $(find / -xdev -perm -4000 -type f 2> /dev/null); do "$f" --help > /dev/null 2>&1; done
grep -q 'NoNewPrivs:.*1' /proc/self/status || grep -q 'CapBnd:.*0000000000000000' /proc/self/status || echo "ESCAPED set-user-id programs may give rights"
echo tried it all`)
	if b, err := os.ReadFile(canary); err != nil || string(b) != "canary-of-the-host" {
		w.Errorf("a file of the host now contains %q, %v", b, err)
	}
}

func serverParts(w *tenant) {
	d := w.host.Data
	w.checkDenied(`
for f in ` + quote(d) + ` ` + quote(d+"/stint.db") + ` ` + quote(d+"/stint.db-wal") + ` ` + quote(d+"/stint.sock") + ` ` + quote(filepath.Dir(d)) + `; do
	for at in "" /proc/1/root /proc/self/root /proc/self/cwd/../../../..; do
		[ -e "$at$f" ] && echo "ESCAPED $at$f is there"
	done
done
for p in /proc/[0-9]*; do
	tr '\0' '\n' < $p/environ 2> /dev/null | grep -q ` + envCanary + ` && echo "ESCAPED the environment of $p holds the server's"
	for f in exe root cwd fd/3 fd/4 fd/5; do [ $p = /proc/1 ] && head -c 1 $p/$f > /dev/null 2>&1 && echo "ESCAPED $p/$f can be read"; done
done
kill -0 ` + fmt.Sprint(w.host.Server.Process.Pid) + ` 2> /dev/null && echo "ESCAPED the server can be signalled"
for fd in /proc/self/fd/*; do case "$(readlink $fd)" in *stint*|*data*) echo "ESCAPED $fd is the server's";; esac; done
env | grep -i canary && echo "ESCAPED the server's environment came along"
python3 - <<'END'
import socket
for family, at in ((socket.AF_UNIX, ` + fmt.Sprintf("%q", d+"/stint.sock") + `), (socket.AF_INET, ("127.0.0.1", ` + w.host.Listen[strings.LastIndexByte(w.host.Listen, ':')+1:] + `))):
    s = socket.socket(family, socket.SOCK_STREAM)
    s.settimeout(2)
    try:
        s.connect(at)
        s.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
        if s.recv(10): print("ESCAPED", at, "answers")
    except OSError: pass
END
echo tried it all`)
}

// otherTenant checks that a run cannot access the files, secrets, and processes of a
// run of another organisation, even if it knows the paths of the files.
func otherTenant(w *tenant) {
	name := mark(w)
	holder := w.create(stint.NewRun{Prompt: "for d in . ~ /tmp /dev/shm; do echo x > $d/" + name + "; done; echo ready; exec -a holder-" + name + " sleep 600", Secrets: map[string]string{"THEIRS": name + "-secret"}})
	w.host.waitUntil(w.T, "the files", func() bool { return strings.Contains(w.output(holder.ID), "ready") })
	places := w.host.pathsOf(name)
	if len(places) < 2 {
		w.Fatalf("the files are at %q", places)
	}
	script := ""
	for _, p := range places {
		script += "[ -e " + quote(p) + " ] && echo 'ESCAPED the file is there'\n"
	}
	other := w.host.tenant(w.T)
	other.checkDenied(script + `
find / -path /proc -prune -o -path /usr -prune -o -name ` + quote(name) + ` -print 2> /dev/null | sed 's/^/ESCAPED to /'
cat /proc/*/environ 2> /dev/null | tr '\0' '\n' | grep -q ^THEIRS && echo ESCAPED to a secret
cat /proc/[0-9]*/cmdline 2> /dev/null | tr '\0' ' ' | grep -q 'holder[-]' && echo ESCAPED to a process
ls /dev/shm/* /tmp/mark* 2> /dev/null | sed 's/^/ESCAPED to /'
echo tried it all`)
	_, err := other.client.Runs.Get(w.Context(), holder.ID)
	if err == nil {
		w.Error("the run of another organisation is visible")
	}
	_, err = w.client.Runs.Cancel(w.Context(), holder.ID)
	installation.Check(w, err)
}

// pathsOf returns the paths of the files with this name below the data folder.
func (h *host) pathsOf(name string) (found []string) {
	_ = filepath.WalkDir(h.Data, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Name() == name {
			found = append(found, path)
		}
		return nil
	})
	return found
}

// systemCalls checks that a Python program cannot make privileged system calls.
func systemCalls(w *tenant) {
	ranks := `
attempt("nice", lambda: os.nice(-5) and None)
attempt("out of memory first", lambda: os.write(os.open("/proc/self/oom_score_adj", os.O_WRONLY), b"-1000"))`
	if w.host.isolation == "gvisor" {
		ranks = "" // priorities in the gVisor kernel do not affect the host
	}
	w.checkDenied(python(`
import ctypes, errno, os, socket
c = ctypes.CDLL(None, use_errno=True)
def attempt(name, f):
    try: r = f()
    except (OSError, PermissionError): return
    if r is None or r >= 0: print("ESCAPED", name)
attempt("mount", lambda: c.mount(b"none", b"/tmp", b"tmpfs", 0, None))
attempt("mount of groups", lambda: c.mount(b"none", b"/tmp", b"cgroup", 0, b"memory"))
attempt("umount", lambda: c.umount2(b"/proc", 2))
attempt("chroot", lambda: os.chroot("/tmp"))
attempt("ptrace of init", lambda: c.ptrace(0x4206, 1, 0, 0))
attempt("mknod", lambda: os.mknod("/tmp/sda", 0o60600, os.makedev(8, 0)))
attempt("setuid", lambda: os.setuid(0))
attempt("sethostname", lambda: socket.sethostname("owned"))
attempt("reading init's memory", lambda: open("/proc/1/mem", "rb").read(1) and None)
attempt("real time", lambda: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1)))
attempt("the clock", lambda: __import__("time").clock_settime(0, __import__("time").time()))
attempt("packets", lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW).fileno())
attempt("raw sockets", lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1).fileno())
attempt("vsock", lambda: socket.socket(40, socket.SOCK_STREAM).fileno())
attempt("a terminal", lambda: os.open("/dev/tty", os.O_RDWR))
attempt("kill of init", lambda: os.kill(1, 9) if os.stat("/proc/1").st_uid != os.getuid() else -1)` + ranks + `
print("tried it all")`))
}

func killAll(w *tenant) {
	w.withOther(func() {
		r := w.ended(w.create(stint.NewRun{Prompt: "echo ready; kill -9 -1; kill -9 $PPID 1; sleep 1; kill -9 $$"}).ID)
		if r.Status != stint.Failed && r.Status != stint.Completed {
			w.Errorf("the run is %s, %s", r.Status, installation.Value(r.StatusReason))
		}
	})
	if err := w.host.Server.Process.Signal(syscall.Signal(0)); err != nil {
		w.Errorf("the server was killed: %v", err)
	}
}

// hostNetwork checks that a run cannot connect to addresses of this machine and of
// private networks.
func hostNetwork(w *tenant) {
	w.checkDenied(python(`
import socket
targets = [("127.0.0.1", ` + w.host.Listen[strings.LastIndexByte(w.host.Listen, ':')+1:] + `), ("169.254.169.254", 80), ("10.0.0.1", 80), ("192.168.0.1", 80), ("0.0.0.0", ` + w.host.Listen[strings.LastIndexByte(w.host.Listen, ':')+1:] + `)]
for t in targets:
    s = socket.socket()
    s.settimeout(2)
    try:
        s.connect(t)
        s.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
        got = s.recv(1000)
        if got and b"403" not in got and b"502" not in got: print("ESCAPED", t, "answers", got[:40])
    except OSError: pass
print("tried it all")`))
}
