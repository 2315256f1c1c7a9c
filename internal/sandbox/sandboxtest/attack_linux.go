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

// attempt is one thing that nobody inside may do. It succeeds, with no error,
// when it got what it wanted.
type attempt struct {
	name string
	run  func() error
	kind kind
}

// kind tells who may be granted an attempt.
type kind int

const (
	// free succeeds in namespaces alone, without locks. The controls hold it to
	// that, so it cannot pass for a reason of its own.
	allowedInNamespaces kind = 1 << iota
	// rooted succeeds for the host's root, and does no harm.
	allowedForRoot
	// within may be granted by a kernel of the sandbox's own, which it concerns
	// alone.
	allowedByOwnKernel
)

// target is the process that the attempts on init are made on: in a control it
// is another of the same user.
var attackedPID = 1

// attacks are attempts by group.
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

// attackProgram tries all of a group and writes the names of those that
// succeeded; after the number of a kind only those of that kind.
func attackProgram(g Program, args []string) error {
	runtime.LockOSThread() // namespaces and rights are a thread's
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

// repels demands that nothing of a group succeeds inside.
func (w *world) expectRefused(group string) {
	w.Helper()
	host, err := os.Hostname()
	w.must(err)
	got := strings.Split(w.succeed(w.spec(), "attack", group), "\n")
	for _, a := range attacks[group]() {
		if slices.Contains(got, a.name) && (!w.suite.OwnKernel || a.kind&allowedByOwnKernel == 0) {
			w.Errorf("%s is allowed", a.name)
		}
	}
	after, err := os.Hostname()
	w.must(err)
	w.want("the host's name", host, after)
}

// bare runs a program of the suite in namespaces of its own, as their root, and
// without any other lock. It gives the output.
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
	return output2(c)
}

// unhindered runs a program of the suite as any other of the host.
func (w *world) runOnHost(args ...string) (string, error) {
	w.Helper()
	c := exec.Command(filepath.Join(w.suite.tools, programName), args...)
	w.setDir(c)
	return output2(c)
}

// place has a program leave what it makes in the folder of its case.
func (w *world) setDir(c *exec.Cmd) { c.Dir, c.Env = w.dir, append(os.Environ(), "TMPDIR="+w.dir) }

func output2(c *exec.Cmd) (string, error) {
	var out, stderr bytes.Buffer
	c.Stdout, c.Stderr = &out, &stderr
	if err := c.Run(); err != nil {
		return out.String(), fmt.Errorf("%w: %s", err, &stderr)
	}
	return out.String() + stderr.String(), nil
}

// grants demands that the attempts of a group succeed where they can.
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
				w.Errorf("%s fails even without locks: %s", a.name, why)
			}
		}
	}
}

// betrays demands that a program which looks for something of the host finds it
// when it is not in a sandbox.
func (w *world) expectFoundOnHost(words string, args ...string) {
	w.Helper()
	got, err := w.runOnHost(args...)
	if err == nil || !strings.Contains(err.Error(), words) {
		w.Errorf("%v on the host gives %q, %v", args, got, err)
	}
}

// raw makes a system call.
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

// heard makes an attempt of a call with arguments that make no sense: one that
// was let through as far as to see that has succeeded.
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

// child starts this program once more in a way of the caller's, and waits.
func child(attr *syscall.SysProcAttr) error {
	p, err := os.StartProcess("/proc/self/exe", []string{programName, "exit", "0"}, &os.ProcAttr{Sys: attr})
	if err != nil {
		return err
	}
	if attr.Ptrace {
		err = p.Kill() // it waits for its tracer
	}
	_, werr := p.Wait()
	return errors.Join(err, werr)
}

func cloneWith(flags uintptr) error { return child(&syscall.SysProcAttr{Cloneflags: flags}) }
