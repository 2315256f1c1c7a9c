//go:build linux && (amd64 || arm64)

package namespace

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/stint-dev/stint/internal/sandbox"
	"github.com/stint-dev/stint/internal/sandbox/agentinit"
	"github.com/stint-dev/stint/internal/sandbox/idmap"
	"github.com/stint-dev/stint/internal/sandbox/namespace/setup"
	"github.com/stint-dev/stint/internal/sandbox/overlay"
	"github.com/stint-dev/stint/internal/sandbox/rootfs"
)

// planRoot adds the entries and mounts of the root to the plan. If the server runs
// as root, it also returns an ID-mapped tree of each mount except aliases, in the order
// in which init inherits the trees.
func (sb *instance) planRoot(p *setup.Plan) ([]*os.File, error) {
	if sb.spec.Image != "" {
		var err error
		if p.Entries, p.Etc, err = rootfs.ImageEntries(sb.spec.Image); err != nil {
			return nil, err
		}
		p.Image = setup.Mount{Target: "/", Source: sb.spec.Image}
	}
	p.Trust = setup.Mount{Target: "the trusted certificates", Source: sb.driver.trust}
	sb.system = p.Entries
	list, err := sb.specMounts()
	if err != nil {
		return nil, err
	}
	if err := sb.placeMounts(list); err != nil {
		return nil, err
	}
	p.Mounts = list
	if sb.driver.ranges == nil {
		return nil, nil
	}
	if sb.ids.slot, sb.ids.userns, err = sb.driver.ranges.acquire(); err != nil {
		return nil, fmt.Errorf("preparing sandbox: %w", err)
	}
	sb.ids.reserved = true
	return sb.mapMounts(p)
}

// specMounts returns the mounts of the spec: home, workspace, the run's folder, the
// spec's Mounts, and /tmp. One of Mounts can replace home or workspace.
func (sb *instance) specMounts() ([]setup.Mount, error) {
	more, err := sb.expand(sb.spec.Mounts)
	if err != nil {
		return nil, err
	}
	var list []setup.Mount
	for _, own := range []setup.Mount{{Target: sandbox.HomeDir, Source: sb.spec.Home, Writable: true}, {Target: sandbox.WorkspaceDir, Source: sb.spec.Workspace, Writable: true}} {
		if !slices.ContainsFunc(more, func(m setup.Mount) bool { return m.Target == own.Target }) {
			list = append(list, own)
		}
	}
	if sb.spec.Run != "" {
		list = append(list, setup.Mount{Target: sandbox.RunDir, Source: sb.spec.Run})
	}
	list = append(list, more...)
	if sb.spec.Scratch != "" {
		// /tmp is on disk. In memory, the files of an agent's builds and caches
		// would count towards its memory limit.
		tmp := filepath.Join(sb.spec.Scratch, "tmp")
		if err := errors.Join(os.Mkdir(tmp, 0o700), os.Chmod(tmp, 0o777|os.ModeSticky)); err != nil {
			return nil, fmt.Errorf("preparing sandbox: %w", err)
		}
		list = append(list, setup.Mount{Target: agentinit.TmpDir, Source: tmp, Writable: true})
	}
	return list, nil
}

// placeMounts sorts list by the length of the targets, ensures that each target
// exists or will be created by init, and adds list to the sandbox's mounts.
func (sb *instance) placeMounts(list []setup.Mount) error {
	slices.SortStableFunc(list, func(a, b setup.Mount) int { return cmp.Compare(len(a.Target), len(b.Target)) })
	mounts := slices.Clone(sb.mounts)
	for i := range list {
		m := &list[i]
		if err := checkSources(m); err != nil {
			return err
		}
		mounts = slices.DeleteFunc(mounts, func(before setup.Mount) bool { return replacesDir(m, &before) })
		for _, before := range mounts {
			if before.Target == m.Target || strings.HasPrefix(before.Target, m.Target+"/") {
				return &sandbox.Error{Message: fmt.Sprintf("A folder is mounted at %s already; mount the other elsewhere than at %s.", before.Target, m.Target)}
			}
		}
		if err := sb.makeTarget(mounts, m); err != nil {
			return err
		}
		mounts = append(mounts, *m)
	}
	sb.setMounts(mounts)
	return nil
}

// setMounts sets the sandbox's mounts and its writable folders.
func (sb *instance) setMounts(mounts []setup.Mount) {
	sb.mounts = mounts
	var writable []string
	for _, m := range mounts {
		switch {
		case m.AliasOf != "":
		case m.Upper != "":
			writable = append(writable, m.Upper, overlay.WorkDir(m.Upper))
		case m.Writable:
			writable = append(writable, m.Source)
		}
	}
	sb.state.mu.Lock()
	defer sb.state.mu.Unlock()
	sb.state.writable = writable
}

// replacesDir reports whether m may replace the mount before at the same target: an
// overlay may replace a plain mount of home or workspace.
func replacesDir(m, before *setup.Mount) bool {
	return before.Target == m.Target && sandbox.IsAgentDir(m.Target) && len(m.Layers) > 0 && len(before.Layers) == 0
}

func checkSources(m *setup.Mount) error {
	folders := m.Layers
	if len(folders) == 0 {
		folders = []string{m.Source}
	}
	for _, dir := range folders {
		if st, err := os.Stat(dir); err != nil || !st.IsDir() {
			return &sandbox.Error{Message: fmt.Sprintf("The folder for %s is missing on the host.", m.Target), Err: err}
		}
	}
	return nil
}

// makeTarget ensures that the target folder of m exists. If the target is inside an
// earlier mount, makeTarget creates the folder in the source of that mount.
// Otherwise init creates the folder on its root.
func (sb *instance) makeTarget(before []setup.Mount, m *setup.Mount) error {
	for _, over := range slices.Backward(before) { // longer targets are at the end, so the nearest mount is found first
		rel, ok := strings.CutPrefix(m.Target, over.Target+"/")
		if !ok {
			continue
		}
		if err := makeTargetIn(&over, rel); err != nil {
			return &sandbox.Error{Message: fmt.Sprintf("The folder %s cannot be created inside %s.", m.Target, over.Target), Err: err}
		}
		return nil
	}
	m.MakeTarget = true
	return rootfs.CheckTarget(m.Target, sb.system, sb.spec.Image)
}

func makeTargetIn(over *setup.Mount, rel string) error {
	if len(over.Layers) > 0 {
		return overlay.MakeTarget(over.Layers, over.Upper, rel)
	}
	root, err := os.OpenRoot(over.Source)
	if err != nil {
		return err
	}
	defer root.Close()
	if st, err := root.Stat(rel); err == nil && st.IsDir() {
		return nil
	}
	return root.MkdirAll(rel, 0o755)
}

// mapMounts returns an ID-mapped tree for each mount of a plan except aliases, including
// the trust bundle and the image, and sets the FD of each of these mounts.
func (sb *instance) mapMounts(p *setup.Plan) ([]*os.File, error) {
	var trees []*os.File
	add := func(m *setup.Mount, userns *os.File) error {
		tree, err := sb.mapMount(m, userns)
		if err != nil {
			return err
		}
		m.FD = setup.MountFD + len(trees)
		trees = append(trees, tree)
		return nil
	}
	for i := range p.Mounts {
		if p.Mounts[i].AliasOf != "" {
			continue
		}
		if err := add(&p.Mounts[i], sb.ids.userns); err != nil {
			return trees, err
		}
	}
	if p.Trust.Source != "" {
		if err := add(&p.Trust, sb.ids.userns); err != nil {
			return trees, err
		}
	}
	if p.Image.Source == "" {
		return trees, nil
	}
	// The image's files belong to user 0 inside, so that the agent has only the
	// permissions of other users.
	userns, err := sb.driver.ranges.userNamespace(sb.driver.ranges.firstID(sb.ids.slot))
	if err != nil {
		return trees, fmt.Errorf("preparing sandbox: %w", err)
	}
	return trees, add(&p.Image, userns)
}

func (sb *instance) mapMount(m *setup.Mount, userns *os.File) (*os.File, error) {
	if len(m.Layers) > 0 {
		fd, err := overlay.MountMapped(m.Layers, m.Upper, int(userns.Fd()), sb.driver.ranges.agentID(sb.ids.slot))
		if err != nil {
			return nil, fmt.Errorf("mounting %s: %w: %w", m.Target, sandbox.ErrOverlay, err)
		}
		return os.NewFile(uintptr(fd), m.Target), nil
	}
	fd, err := idmap.CloneTree(m.Source, m.Writable, int(userns.Fd()))
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOSYS) {
		return nil, &sandbox.Error{Message: fmt.Sprintf("The file system that holds the folder for %s has no ID-mapped mounts; keep Stint's data on ext4, xfs, btrfs or, from Linux 6.3 on, tmpfs.", m.Target), Err: err}
	}
	if err != nil {
		return nil, fmt.Errorf("preparing sandbox: mounting %s: %w", m.Target, err)
	}
	return os.NewFile(uintptr(fd), m.Target), nil
}
