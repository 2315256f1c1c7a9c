package sandboxtest

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// attempt is an action that must fail inside a sandbox. run returns nil if the action
// succeeded.
type attempt struct {
	name string
	run  func() error
	kind kind
}

// kind is a set of flags that state where an attempt succeeds or may succeed.
type kind int

const (
	// allowedInNamespaces: the attempt succeeds in new namespaces without further
	// restrictions. The control cases check this, so that a failure inside a
	// sandbox is a result of the sandbox's restrictions.
	allowedInNamespaces kind = 1 << iota
	// allowedForRoot: the attempt succeeds for the root user of the host and does
	// no harm. The control cases check this too.
	allowedForRoot
	// allowedByOwnKernel: the attempt may succeed in a sandbox that has its own
	// kernel, because it affects only that kernel.
	allowedByOwnKernel
)

// attackedPID is the ID of the process that the attempts of initAttempts attack: init
// inside a sandbox, the parent of the attacking program in control cases.
var attackedPID = 1

// attacks maps the name of each group to its attempts.
var attacks = map[string]func() []attempt{
	"calls":   callAttempts,
	"files":   fileAttempts,
	"machine": machineAttempts,
	"sockets": socketAttempts,
	"network": linkAttempts,
	"limits":  limitAttempts,
	"init":    initAttempts,
}

func init() {
	programsByName["attack"] = attackProgram
	for group := range attacks {
		hostileCases["attack on "+group] = func(w *world) { w.expectRefused(group) }
		controls["attack on "+group] = func(w *world) { w.expectAllowed(group) }
	}
}

// attackProgram runs the attempts of the group args[0]. It writes the names of the
// successful attempts to stdout, and the errors of the others to stderr. Control cases
// pass args[1], a kind as a number: only attempts with these flags are run.
func attackProgram(g Program, args []string) error {
	runtime.LockOSThread() // namespaces and privileges apply to threads
	only := 0
	if len(args) > 1 {
		var err error
		if only, err = strconv.Atoi(args[1]); err != nil {
			return err
		}
		attackedPID = os.Getppid()
	}
	for _, a := range attacks[args[0]]() {
		if a.kind&kind(only) != kind(only) {
			continue
		}
		err := a.run()
		if err == nil {
			fmt.Fprintln(g.Stdout, a.name)
		} else {
			fmt.Fprintln(g.Stderr, a.name+": "+err.Error())
		}
	}
	return nil
}

// expectRefused checks that no attempt of a group succeeds inside a sandbox, except
// those that the sandbox's own kernel may allow.
func (w *world) expectRefused(group string) {
	w.Helper()
	host, err := os.Hostname()
	w.must(err)
	got := strings.Split(w.succeed(w.spec(), "attack", group), "\n")
	for _, a := range attacks[group]() {
		if slices.Contains(got, a.name) && (!w.suite.OwnKernel || a.kind&allowedByOwnKernel == 0) {
			w.Errorf("%s succeeds", a.name)
		}
	}
	after, err := os.Hostname()
	w.must(err)
	w.want("the host's name", host, after)
}

// runInNamespaces runs a program as root of new namespaces without further
// restrictions and returns its output.
func (w *world) runInNamespaces(args ...string) (string, error) {
	w.Helper()
	c := exec.Command(filepath.Join(w.suite.tools, programName), args...)
	w.setDir(c)
	user := []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}}
	group := []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
	c.SysProcAttr = &syscall.SysProcAttr{
		Setsid:      true,
		Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS,
		UidMappings: user, GidMappings: group,
		Credential: &syscall.Credential{Uid: 0, Gid: 0, NoSetGroups: true},
	}
	return combinedOutput(c)
}

// runOnHost runs a program without a sandbox and returns its output.
func (w *world) runOnHost(args ...string) (string, error) {
	w.Helper()
	c := exec.Command(filepath.Join(w.suite.tools, programName), args...)
	w.setDir(c)
	return combinedOutput(c)
}

// setDir makes a program create its files in the folder of the test case.
func (w *world) setDir(c *exec.Cmd) { c.Dir, c.Env = w.dir, append(os.Environ(), "TMPDIR="+w.dir) }

func combinedOutput(c *exec.Cmd) (string, error) {
	var out, stderr bytes.Buffer
	c.Stdout, c.Stderr = &out, &stderr
	if err := c.Run(); err != nil {
		return out.String(), fmt.Errorf("%w: %s", err, &stderr)
	}
	return out.String() + stderr.String(), nil
}

// expectAllowed checks that the attempts of a group succeed without restrictions: in
// new namespaces and, if the test runs as root, on the host, depending on their kind.
func (w *world) expectAllowed(group string) {
	w.Helper()
	kinds := map[kind]func(...string) (string, error){allowedInNamespaces: w.runInNamespaces}
	if os.Geteuid() == 0 {
		kinds[allowedForRoot] = w.runOnHost
	}
	for k, run := range kinds {
		got, err := run("attack", group, strconv.Itoa(int(k)))
		w.must(err)
		for _, a := range attacks[group]() {
			if a.kind&k != 0 && !strings.Contains("\n"+got, "\n"+a.name+"\n") {
				_, why, _ := strings.Cut("\n"+got, "\n"+a.name+": ")
				why, _, _ = strings.Cut(why, "\n")
				w.Errorf("%s fails without restrictions: %s", a.name, why)
			}
		}
	}
}

// expectFoundOnHost runs, without a sandbox, a program that fails if it can access
// something of the host. It checks that the program fails with an error that contains
// words.
func (w *world) expectFoundOnHost(words string, args ...string) {
	w.Helper()
	got, err := w.runOnHost(args...)
	if err == nil || !strings.Contains(err.Error(), words) {
		w.Errorf("%v on the host returned %q, %v", args, got, err)
	}
}

// syscallAttempt returns a function that makes a system call with up to six arguments.
func syscallAttempt(number uintptr, args ...uintptr) func() error {
	var a [6]uintptr
	copy(a[:], args)
	return func() error {
		if _, _, errno := unix.Syscall6(number, a[0], a[1], a[2], a[3], a[4], a[5]); errno != 0 {
			return errno
		}
		return nil
	}
}

// reaches returns a function for a system call with invalid arguments. The attempt
// succeeds if the kernel's error is about the arguments, because the kernel then did
// not refuse the call itself.
func reaches(do func() error) func() error {
	return func() error {
		err := do()
		for _, nonsense := range []error{unix.EINVAL, unix.EFAULT, unix.EBADF, unix.EBUSY, unix.E2BIG, unix.ENOEXEC} {
			if errors.Is(err, nonsense) {
				return nil
			}
		}
		return err
	}
}

// child starts this binary as a process with the given attributes and waits until the
// process ends.
func child(attr *syscall.SysProcAttr) error {
	p, err := os.StartProcess("/proc/self/exe", []string{programName, "exit", "0"}, &os.ProcAttr{Sys: attr})
	if err != nil {
		return err
	}
	if attr.Ptrace {
		err = p.Kill() // a traced process stops when it starts and waits for its tracer
	}
	_, werr := p.Wait()
	return errors.Join(err, werr)
}

func cloneWith(flags uintptr) error { return child(&syscall.SysProcAttr{Cloneflags: flags}) }
