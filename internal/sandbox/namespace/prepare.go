//go:build linux && (amd64 || arm64)

package namespace

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/stint-dev/stint/internal/sandbox"
	"github.com/stint-dev/stint/internal/sandbox/agentinit"
	"github.com/stint-dev/stint/internal/sandbox/capture"
	"github.com/stint-dev/stint/internal/sandbox/capture/hostend"
	"github.com/stint-dev/stint/internal/sandbox/control"
	"github.com/stint-dev/stint/internal/sandbox/namespace/setup"
	"github.com/stint-dev/stint/internal/sandbox/overlay"
)

// initThreads is the number of threads of init. It is added to the process limit of
// the control group, which contains init and the agent.
const initThreads = 16

// Prepare creates a sandbox. Its init process then waits for Attach and Start.
func (d *Driver) Prepare(ctx context.Context, s sandbox.Spec) (sandbox.Sandbox, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	if _, ok := d.live.LoadOrStore(s.ID, true); ok {
		return nil, fmt.Errorf("namespace: sandbox %s exists already", s.ID)
	}
	sb := &instance{driver: d, spec: s, state: instanceState{limits: s.Resources}}
	err := sb.prepare(ctx)
	if err == nil {
		return sb, nil
	}
	// Resources must be released even if ctx has ended.
	if cerr := sb.Close(context.WithoutCancel(ctx)); cerr != nil {
		d.log.Warn("removing a sandbox after a failed Prepare", "sandbox", s.ID, "error", cerr)
	}
	return nil, err
}

func (sb *instance) prepare(ctx context.Context) error {
	inherited, err := sb.newInit()
	for _, f := range inherited {
		f.Close() // the child has its own copies
	}
	if err != nil {
		return err
	}
	// ESRCH means that init has ended: the request below then fails with the reason.
	if err := sb.group.Join(sb.process.Pid); err != nil && !errors.Is(err, syscall.ESRCH) {
		return err
	}
	if err := sb.driver.writeRecord(sb.spec.ID, sb.process.Pid); err != nil {
		return err
	}
	sockets, err := sb.conn.Request(ctx, agentinit.Message{Op: agentinit.OpGo}, agentinit.OpReady, sb.initStderr)
	if err != nil {
		return sb.setUpError(err)
	}
	if err := sb.takeNetwork(sockets); err != nil {
		return err
	}
	if err := sb.addOverlayDevices(); err != nil {
		return err
	}
	return sb.awaitKernel(ctx)
}

// setUpError returns the error of Prepare for an error of init. If the kernel lacks
// nf_tables, the error is a *sandbox.Error with a message for the operator. If the
// kernel cannot mount the overlays, it wraps sandbox.ErrOverlay.
func (sb *instance) setUpError(err error) error {
	if sb.spec.Network && strings.Contains(err.Error(), capture.ErrNoRules.Error()) {
		return &sandbox.Error{Message: "The host's kernel cannot redirect a sandbox's network to Stint: nf_tables with nat chains and redirect is missing.", Err: err}
	}
	if strings.Contains(err.Error(), overlay.ErrUnsupported.Error()) {
		err = fmt.Errorf("%w: %w", sandbox.ErrOverlay, err)
	}
	return fmt.Errorf("preparing sandbox: %w", err)
}

// takeNetwork opens the network with the sockets that init has sent, if the spec
// requests a network. It closes the files in any case.
func (sb *instance) takeNetwork(sockets []*os.File) error {
	defer func() {
		for _, f := range sockets {
			f.Close()
		}
	}()
	if !sb.spec.Network {
		return nil
	}
	if len(sockets) != 2 {
		return fmt.Errorf("preparing sandbox: init sent %d network sockets", len(sockets))
	}
	n, err := hostend.Open(sockets[0], sockets[1])
	if err != nil {
		return fmt.Errorf("preparing sandbox: %w", err)
	}
	sb.network = n
	sb.goroutines.Go(func() {
		<-sb.conn.Gone()
		_ = n.Close() // otherwise its sockets would keep the network namespace alive, and Accept would block
	})
	return nil
}

// newInit starts init. It returns the files that init inherits, which the caller
// must close, even after an error.
func (sb *instance) newInit() ([]*os.File, error) {
	d, p := sb.driver, sb.driver.template
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("preparing sandbox: %w", err)
	}
	files := []*os.File{null}
	trees, err := sb.planRoot(&p)
	files = append(files, trees...)
	if err != nil {
		return files, err
	}
	p.Network = sb.spec.Network
	p.ShmMax, p.TmpMax = sb.state.limits.Memory/2, sb.state.limits.Disk
	if d.kernel != nil {
		more, err := sb.planKernel(&p, len(trees))
		trees = append(trees, more...)
		files = append(files, more...)
		if err != nil {
			return files, err
		}
	}
	file, err := control.MemoryFile("plan", &p)
	if err != nil {
		return files, err
	}
	files = append(files, file)
	if sb.stderr, err = control.MemoryFile("stderr", nil); err != nil {
		return files, err
	}
	conn, remote, err := control.NewSocketPair()
	if err != nil {
		return files, err
	}
	owner := -1
	if sb.ids.reserved {
		owner = d.ranges.agentID(sb.ids.slot)
	}
	sb.conn = control.New(conn, control.Config{Owner: owner, Cause: sb.cause, Watch: sb.watch, Processes: sb.pidLimit})
	files = append(files, remote)
	if sb.group, err = d.groups.Create(sb.spec.ID, d.groupLimits(sb.state.limits)); err != nil {
		return files, err
	}
	sb.process, err = os.StartProcess("/proc/self/exe", []string{setup.Name}, &os.ProcAttr{
		Env:   []string{}, // not nil: nil would pass the server's environment with its secrets
		Files: append([]*os.File{null, null, sb.stderr, remote, file}, trees...),
		Sys:   sb.processAttr(),
	})
	if err != nil {
		return files, startError(err)
	}
	sb.disk.Proc = fmt.Sprintf("/proc/%d/root/proc", sb.process.Pid) // init's view, which shows only the sandbox's processes
	sb.goroutines.Go(func() { sb.conn.Listen(sb.killAndReap) })
	return files, nil
}

// groupLimits returns the limits of the control group: the agent's limits r plus the
// needs of init or of the user-space kernel. Unlimited resources stay unlimited.
func (d *Driver) groupLimits(r sandbox.Resources) sandbox.Resources {
	own := sandbox.Resources{Pids: initThreads}
	if d.kernel != nil {
		own = d.kernel.Overhead(r)
	}
	if r.Pids > 0 {
		r.Pids += own.Pids
	}
	if r.Memory > 0 {
		r.Memory += own.Memory
	}
	return r
}

// processAttr returns the attributes of the init process. They do not include a
// parent-death signal: the kernel sends it when the thread that started init ends,
// and a Go program does not control its threads. Instead, init exits when the
// control socket closes.
func (sb *instance) processAttr() *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{
		Setsid:     true, // a terminal's Ctrl-C is for the server only
		Cloneflags: unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS,
	}
	if fd, ok := sb.group.FD(); ok {
		attr.UseCgroupFD, attr.CgroupFD = true, fd
	}
	user, group := os.Geteuid(), os.Getegid()
	switch r := sb.driver.ranges; {
	case r != nil && sb.driver.kernel != nil:
		// One mapped user is sufficient: the user-space kernel has its own users.
		user, group = r.agentID(sb.ids.slot), r.agentID(sb.ids.slot)
		attr.Credential = &syscall.Credential{Uid: agentinit.AgentID, Gid: agentinit.AgentID}
		attr.GidMappingsEnableSetgroups = true
	case r != nil:
		m := []syscall.SysProcIDMap{{ContainerID: 0, HostID: r.firstID(sb.ids.slot), Size: rangeSize}}
		attr.UidMappings, attr.GidMappings, attr.GidMappingsEnableSetgroups = m, m, true
		attr.Credential = &syscall.Credential{Uid: 0, Gid: 0}
		return attr
	}
	attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: agentinit.AgentID, HostID: user, Size: 1}}
	attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: agentinit.AgentID, HostID: group, Size: 1}}
	for c := uintptr(0); c <= unix.CAP_LAST_CAP; c++ {
		attr.AmbientCaps = append(attr.AmbientCaps, c) // a user other than 0 keeps only ambient capabilities over exec
	}
	return attr
}

// startError adds the reason to err if the host does not permit user namespaces.
func startError(err error) error {
	for _, hint := range []struct{ file, bad, text string }{
		{"/proc/sys/kernel/unprivileged_userns_clone", "0", "user namespaces are disabled (sysctl kernel.unprivileged_userns_clone=1 enables them)"},
		{"/proc/sys/user/max_user_namespaces", "0", "user namespaces are disabled (sysctl user.max_user_namespaces)"},
		{"/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1", "AppArmor keeps user namespaces from unprivileged programs (sysctl kernel.apparmor_restrict_unprivileged_userns=0, or a profile for stint)"},
	} {
		if b, rerr := os.ReadFile(hint.file); rerr == nil && strings.TrimSpace(string(b)) == hint.bad {
			return fmt.Errorf("starting the sandbox's first process: %w: %s", err, hint.text)
		}
	}
	return fmt.Errorf("starting the sandbox's first process: %w", err)
}

// initStderr returns the beginning of the text that init or the user-space kernel
// wrote to stderr. Init writes to stderr only if it fails.
func (sb *instance) initStderr() string {
	text, err := io.ReadAll(io.NewSectionReader(sb.stderr, 0, 4<<10))
	if err != nil || len(text) == 0 {
		return "it wrote no error message"
	}
	return strings.TrimSpace(string(text))
}
