//go:build linux && (amd64 || arm64)

package namespace

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/stint-dev/stint/internal/sandbox"
	"github.com/stint-dev/stint/internal/sandbox/namespace/cgroup"
	"github.com/stint-dev/stint/internal/sandbox/namespace/inside"
	"github.com/stint-dev/stint/internal/sandbox/warden"
	"github.com/stint-dev/stint/internal/sandbox/warden/session"
)

// initThreads is what init itself takes of a limit of processes.
const initThreads = 16

// Prepare builds a sandbox whose init waits for the command.
func (d *Driver) Prepare(ctx context.Context, s sandbox.Spec) (sandbox.Sandbox, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	if err := d.admit(s.ID); err != nil {
		return nil, err
	}
	b := &box{driver: d, spec: s}
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

func (b *box) prepare(ctx context.Context) error {
	inherited, err := b.newInit()
	for _, f := range inherited {
		f.Close() // the child has its own by now
	}
	if err != nil {
		return err
	}
	if err := b.group.Join(b.process.Pid); err != nil {
		return err
	}
	if err := b.driver.writeRecord(b.spec.ID, b.process.Pid); err != nil {
		return err
	}
	_, err = b.session.Ask(ctx, warden.Message{Op: warden.OpGo}, warden.OpReady, b.lastWords)
	if err != nil {
		return fmt.Errorf("preparing sandbox: %w", err)
	}
	return nil
}

// newInit starts init and the monitor. The files that it returns, also with an
// error, are init's and to be closed.
func (b *box) newInit() ([]*os.File, error) {
	d, p := b.driver, b.driver.template
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("preparing sandbox: %w", err)
	}
	files := []*os.File{null}
	trees, err := b.planMounts(&p)
	files = append(files, trees...)
	if err != nil {
		return files, err
	}
	p.ShmMax, p.TmpMax = b.spec.Resources.Memory/2, b.spec.Resources.Disk
	paper, err := session.MemoryFile("plan", &p)
	if err != nil {
		return files, err
	}
	files = append(files, paper)
	if b.words, err = session.MemoryFile("words", nil); err != nil {
		return files, err
	}
	conn, theirs, err := session.Pair()
	if err != nil {
		return files, err
	}
	owner := -1
	if b.ranged {
		owner = d.ranges.agent(b.slot)
	}
	b.session = session.New(conn, session.Config{Owner: owner, Judge: b.judge, Watch: b.watch})
	files = append(files, theirs)
	r := b.spec.Resources
	limits := cgroup.Limits{CPU: r.CPU, Memory: r.Memory, Pids: r.Pids}
	if r.Pids > 0 {
		limits.Pids += initThreads
	}
	if b.group, err = d.groups.Create(b.spec.ID, limits); err != nil {
		return files, err
	}
	b.process, err = os.StartProcess("/proc/self/exe", []string{inside.Name}, &os.ProcAttr{
		Env:   []string{}, // not nil: nil would hand over the server's, secrets and all
		Files: append([]*os.File{null, null, b.words, theirs, paper}, trees...),
		Sys:   b.processAttr(),
	})
	if err != nil {
		return files, explainStart(err)
	}
	b.work.Go(func() { b.session.Listen(b.bury) })
	return files, nil
}

// processAttr has no parent-death signal: that would follow the end of the
// thread that happened to start init, which a program of many threads does not
// control. The closed control socket tells init the same, reliably.
func (b *box) processAttr() *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{
		Setsid:     true, // a terminal's Ctrl-C is the server's business
		Cloneflags: unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS,
	}
	if fd, ok := b.group.FD(); ok {
		attr.UseCgroupFD, attr.CgroupFD = true, fd
	}
	if r := b.driver.ranges; r != nil {
		m := []syscall.SysProcIDMap{{ContainerID: 0, HostID: r.first(b.slot), Size: rangeSize}}
		attr.UidMappings, attr.GidMappings, attr.GidMappingsEnableSetgroups = m, m, true
		attr.Credential = &syscall.Credential{Uid: 0, Gid: 0}
		return attr
	}
	attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: warden.AgentID, HostID: os.Geteuid(), Size: 1}}
	attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: warden.AgentID, HostID: os.Getegid(), Size: 1}}
	for c := uintptr(0); c <= unix.CAP_LAST_CAP; c++ {
		attr.AmbientCaps = append(attr.AmbientCaps, c) // a user other than 0 keeps no others over exec
	}
	return attr
}

// explainStart names what usually forbids user namespaces.
func explainStart(err error) error {
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

// planMounts makes the list of the caller's folders, and with root's rights a
// mapped tree of each, which init inherits in the list's order.
func (b *box) planMounts(p *inside.Plan) ([]*os.File, error) {
	list := []inside.Mount{
		{Target: sandbox.HomeDir, Source: b.spec.Home, Writable: true},
		{Target: sandbox.WorkspaceDir, Source: b.spec.Workspace, Writable: true},
	}
	if b.spec.Run != "" {
		list = append(list, inside.Mount{Target: sandbox.RunDir, Source: b.spec.Run})
	}
	for _, m := range b.spec.Mounts {
		list = append(list, inside.Mount{Target: m.Target, Source: m.Source, Writable: m.Writable})
	}
	if b.spec.Scratch != "" {
		// On disk rather than in memory, where an agent's builds and caches
		// would count against its memory.
		tmp := filepath.Join(b.spec.Scratch, "tmp")
		if err := errors.Join(os.Mkdir(tmp, 0o700), os.Chmod(tmp, 0o777|os.ModeSticky)); err != nil {
			return nil, fmt.Errorf("preparing sandbox: %w", err)
		}
		list = append(list, inside.Mount{Target: warden.TmpDir, Source: tmp, Writable: true})
	}
	slices.SortStableFunc(list, func(a, b inside.Mount) int { return cmp.Compare(len(a.Target), len(b.Target)) })
	for i := range list {
		if err := makeTarget(list[:i], &list[i]); err != nil {
			return nil, err
		}
		if list[i].Writable {
			b.writable = append(b.writable, list[i].Source)
		}
	}
	p.Mounts = list
	if b.driver.ranges == nil {
		return nil, nil
	}
	return b.mapTrees(list)
}

// makeTarget sees to it that a mount has a folder to lie on: on init's own
// root, or inside another mount's source, which only we may write.
func makeTarget(before []inside.Mount, m *inside.Mount) error {
	if st, err := os.Stat(m.Source); err != nil || !st.IsDir() {
		return &sandbox.Error{Message: fmt.Sprintf("The folder for %s is missing on the host.", m.Target), Err: err}
	}
	for _, over := range slices.Backward(before) { // the longest is the nearest
		rel, ok := strings.CutPrefix(m.Target, over.Target+"/")
		if !ok {
			continue
		}
		root, err := os.OpenRoot(over.Source)
		if err != nil {
			return fmt.Errorf("preparing sandbox: %w", err)
		}
		defer root.Close()
		if st, err := root.Stat(rel); err == nil && st.IsDir() {
			return nil
		}
		if err := root.MkdirAll(rel, 0o755); err != nil {
			return &sandbox.Error{Message: fmt.Sprintf("The folder %s cannot be made inside %s.", m.Target, over.Target), Err: err}
		}
		return nil
	}
	m.Make = true
	return nil
}

func (b *box) mapTrees(list []inside.Mount) ([]*os.File, error) {
	slot, view, err := b.driver.ranges.take()
	if err != nil {
		return nil, fmt.Errorf("preparing sandbox: %w", err)
	}
	b.slot, b.ranged = slot, true
	var trees []*os.File
	for i, m := range list {
		fd, err := inside.DetachedTree(m.Source, m.Writable, int(view.Fd()))
		if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOSYS) {
			return trees, &sandbox.Error{Message: fmt.Sprintf("The file system that holds the folder for %s has no ID-mapped mounts; keep Stint's data on ext4, xfs, btrfs or, from Linux 6.3 on, tmpfs.", m.Target), Err: err}
		}
		if err != nil {
			return trees, fmt.Errorf("preparing sandbox: showing %s: %w", m.Target, err)
		}
		trees = append(trees, os.NewFile(uintptr(fd), m.Target))
		list[i].FD = inside.MountFD + i
	}
	return trees, nil
}

// lastWords is what init wrote where only a crash writes.
func (b *box) lastWords() string {
	text, err := io.ReadAll(io.NewSectionReader(b.words, 0, 4<<10))
	if err != nil || len(text) == 0 {
		return "it said nothing"
	}
	return strings.TrimSpace(string(text))
}
