//go:build linux && (amd64 || arm64)

package namespace

import (
	"context"
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
	"github.com/stint-dev/stint/internal/sandbox/namespace/cgroup"
	"github.com/stint-dev/stint/internal/sandbox/namespace/setup"
	"github.com/stint-dev/stint/internal/sandbox/overlay"
)

// initThreads is what init itself takes of a limit of processes.
const initThreads = 16

// Prepare builds a sandbox whose init waits for the command.
func (d *Driver) Prepare(ctx context.Context, s sandbox.Spec) (sandbox.Sandbox, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	if err := d.register(s.ID); err != nil {
		return nil, err
	}
	b := &instance{driver: d, spec: s, limits: s.Resources}
	err := b.prepare(ctx)
	if err == nil {
		return b, nil
	}
	// What was made so far must go, even if the caller has no more patience.
	if cerr := b.Close(context.WithoutCancel(ctx)); cerr != nil {
		d.log.Warn("a sandbox that could not be prepared was not removed", "sandbox", s.ID, "error", cerr)
	}
	return nil, err
}

func (sb *instance) prepare(ctx context.Context) error {
	inherited, err := sb.newInit()
	for _, f := range inherited {
		f.Close() // the child has its own by now
	}
	if err != nil {
		return err
	}
	if err := sb.group.Join(sb.process.Pid); err != nil {
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

// explainSetUp makes a sentence of what only the host's operator can help.
func (sb *instance) setUpError(err error) error {
	if sb.spec.Network && strings.Contains(err.Error(), capture.ErrNoRules.Error()) {
		return &sandbox.Error{Message: "The host's kernel cannot lead a sandbox's network to Stint: nf_tables with its nat chains and redirect is missing.", Err: err}
	}
	if strings.Contains(err.Error(), overlay.ErrUnsupported.Error()) {
		err = fmt.Errorf("%w: %w", sandbox.ErrOverlay, err)
	}
	return fmt.Errorf("preparing sandbox: %w", err)
}

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
		return fmt.Errorf("preparing sandbox: its network came as %d sockets", len(sockets))
	}
	n, err := hostend.Open(sockets[0], sockets[1])
	if err != nil {
		return fmt.Errorf("preparing sandbox: %w", err)
	}
	sb.network = n
	sb.goroutines.Go(func() {
		<-sb.conn.Gone()
		sb.closeNetwork()
	})
	return nil
}

// newInit starts init and the monitor. The files that it returns, also with an
// error, are init's and to be closed.
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
	p.ShmMax, p.TmpMax = sb.limits.Memory/2, sb.limits.Disk
	if d.kernel != nil {
		more, err := sb.planKernel(&p, len(trees))
		trees = append(trees, more...)
		files = append(files, more...)
		if err != nil {
			return files, err
		}
	}
	paper, err := control.MemoryFile("plan", &p)
	if err != nil {
		return files, err
	}
	files = append(files, paper)
	if sb.stderr, err = control.MemoryFile("words", nil); err != nil {
		return files, err
	}
	conn, theirs, err := control.NewSocketPair()
	if err != nil {
		return files, err
	}
	owner := -1
	if sb.hasRange {
		owner = d.ranges.agentID(sb.slot)
	}
	sb.conn = control.New(conn, control.Config{Owner: owner, Cause: sb.cause, Watch: sb.watch, Processes: sb.pidLimit})
	files = append(files, theirs)
	if sb.group, err = d.groups.Create(sb.spec.ID, d.groupLimits(sb.limits)); err != nil {
		return files, err
	}
	sb.process, err = os.StartProcess("/proc/self/exe", []string{setup.Name}, &os.ProcAttr{
		Env:   []string{}, // not nil: nil would hand over the server's, secrets and all
		Files: append([]*os.File{null, null, sb.stderr, theirs, paper}, trees...),
		Sys:   sb.processAttr(),
	})
	if err != nil {
		return files, startError(err)
	}
	sb.disk.Proc = fmt.Sprintf("/proc/%d/root/proc", sb.process.Pid) // init's own view: nobody else's processes
	sb.goroutines.Go(func() { sb.conn.Listen(sb.killAndReap) })
	return files, nil
}

// groupLimits are the agent's, and what is ours within the same group.
func (d *Driver) groupLimits(r sandbox.Resources) cgroup.Limits {
	own := sandbox.Resources{Pids: initThreads}
	if d.kernel != nil {
		own = d.kernel.Overhead(r)
	}
	l := cgroup.Limits{CPU: r.CPU, Memory: r.Memory, Pids: r.Pids}
	if l.Pids > 0 {
		l.Pids += own.Pids
	}
	if l.Memory > 0 {
		l.Memory += own.Memory
	}
	return l
}

// processAttr has no parent-death signal: that would follow the end of the
// thread that happened to start init, which a program of many threads does not
// control. The closed control socket tells init the same, reliably.
func (sb *instance) processAttr() *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{
		Setsid:     true, // a terminal's Ctrl-C is the server's business
		Cloneflags: unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS,
	}
	if fd, ok := sb.group.FD(); ok {
		attr.UseCgroupFD, attr.CgroupFD = true, fd
	}
	user, group := os.Geteuid(), os.Getegid()
	switch r := sb.driver.ranges; {
	case r != nil && sb.driver.kernel != nil:
		// One user is enough: the others are the user-space kernel's.
		user, group = r.agentID(sb.slot), r.agentID(sb.slot)
		attr.Credential = &syscall.Credential{Uid: agentinit.AgentID, Gid: agentinit.AgentID}
		attr.GidMappingsEnableSetgroups = true
	case r != nil:
		m := []syscall.SysProcIDMap{{ContainerID: 0, HostID: r.firstID(sb.slot), Size: rangeSize}}
		attr.UidMappings, attr.GidMappings, attr.GidMappingsEnableSetgroups = m, m, true
		attr.Credential = &syscall.Credential{Uid: 0, Gid: 0}
		return attr
	}
	attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: agentinit.AgentID, HostID: user, Size: 1}}
	attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: agentinit.AgentID, HostID: group, Size: 1}}
	for c := uintptr(0); c <= unix.CAP_LAST_CAP; c++ {
		attr.AmbientCaps = append(attr.AmbientCaps, c) // a user other than 0 keeps no others over exec
	}
	return attr
}

// explainStart names what usually forbids user namespaces.
func startError(err error) error {
	for _, hint := range []struct{ file, bad, text string }{
		{"/proc/sys/kernel/unprivileged_userns_clone", "0", "user namespaces are switched off (sysctl kernel.unprivileged_userns_clone=1 switches them on)"},
		{"/proc/sys/user/max_user_namespaces", "0", "user namespaces are switched off (sysctl user.max_user_namespaces)"},
		{"/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1", "AppArmor keeps user namespaces from unprivileged programs (sysctl kernel.apparmor_restrict_unprivileged_userns=0, or a profile for stint)"},
	} {
		if b, rerr := os.ReadFile(hint.file); rerr == nil && strings.TrimSpace(string(b)) == hint.bad {
			return fmt.Errorf("starting the sandbox's first process: %w: %s", err, hint.text)
		}
	}
	return fmt.Errorf("starting the sandbox's first process: %w", err)
}

// lastWords is what init wrote where only a crash writes.
func (sb *instance) initStderr() string {
	text, err := io.ReadAll(io.NewSectionReader(sb.stderr, 0, 4<<10))
	if err != nil || len(text) == 0 {
		return "it said nothing"
	}
	return strings.TrimSpace(string(text))
}
