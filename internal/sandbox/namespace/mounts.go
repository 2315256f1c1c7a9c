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
	"github.com/stint-dev/stint/internal/sandbox/hostview"
	"github.com/stint-dev/stint/internal/sandbox/idmap"
	"github.com/stint-dev/stint/internal/sandbox/namespace/setup"
	"github.com/stint-dev/stint/internal/sandbox/overlay"
)

// planRoot plans what the sandbox shows. With root's rights it gives a mapped
// tree of each folder of the server, which init inherits in that order.
func (b *box) planRoot(p *setup.Plan) ([]*os.File, error) {
	if b.spec.Image != "" {
		var err error
		if p.System, p.Etc, err = hostview.Image(b.spec.Image); err != nil {
			return nil, err
		}
		p.Image = setup.Mount{Target: "/", Source: b.spec.Image}
	}
	p.Trust = setup.Mount{Target: "the trusted certificates", Source: b.driver.trust}
	b.system = p.System
	list, err := b.callersMounts()
	if err != nil {
		return nil, err
	}
	if err := b.place(list); err != nil {
		return nil, err
	}
	p.Mounts = list
	if b.driver.ranges == nil {
		return nil, nil
	}
	if b.slot, b.view, err = b.driver.ranges.take(); err != nil {
		return nil, fmt.Errorf("preparing sandbox: %w", err)
	}
	b.ranged = true
	return b.mapAll(p)
}

// callersMounts lists the folders of the spec.
func (b *box) callersMounts() ([]setup.Mount, error) {
	more, err := b.expand(b.spec.Mounts)
	if err != nil {
		return nil, err
	}
	var list []setup.Mount
	for _, own := range []setup.Mount{{Target: sandbox.HomeDir, Source: b.spec.Home, Writable: true}, {Target: sandbox.WorkspaceDir, Source: b.spec.Workspace, Writable: true}} {
		if !slices.ContainsFunc(more, func(m setup.Mount) bool { return m.Target == own.Target }) {
			list = append(list, own)
		}
	}
	if b.spec.Run != "" {
		list = append(list, setup.Mount{Target: sandbox.RunDir, Source: b.spec.Run})
	}
	list = append(list, more...)
	if b.spec.Scratch != "" {
		// On disk rather than in memory, where an agent's builds and caches
		// would count against its memory.
		tmp := filepath.Join(b.spec.Scratch, "tmp")
		if err := errors.Join(os.Mkdir(tmp, 0o700), os.Chmod(tmp, 0o777|os.ModeSticky)); err != nil {
			return nil, fmt.Errorf("preparing sandbox: %w", err)
		}
		list = append(list, setup.Mount{Target: agentinit.TmpDir, Source: tmp, Writable: true})
	}
	return list, nil
}

// place sorts mounts, shorter targets first, and sees to it that each has
// something to lie on; from then on they are the sandbox's.
func (b *box) place(list []setup.Mount) error {
	slices.SortStableFunc(list, func(a, b setup.Mount) int { return cmp.Compare(len(a.Target), len(b.Target)) })
	mounts := slices.Clone(b.mounts)
	for i := range list {
		m := &list[i]
		if err := findFolders(m); err != nil {
			return err
		}
		mounts = slices.DeleteFunc(mounts, func(before setup.Mount) bool { return covers(m, &before) })
		for _, before := range mounts {
			if before.Target == m.Target || strings.HasPrefix(before.Target, m.Target+"/") {
				return &sandbox.Error{Message: fmt.Sprintf("A folder is mounted at %s already; mount the other elsewhere than at %s.", before.Target, m.Target)}
			}
		}
		if err := b.makeTarget(mounts, m); err != nil {
			return err
		}
		mounts = append(mounts, *m)
	}
	b.own(mounts)
	return nil
}

// own makes mounts the sandbox's.
func (b *box) own(mounts []setup.Mount) {
	b.mounts = mounts
	var writable []string
	for _, m := range mounts {
		switch {
		case m.Twin != "":
		case m.Upper != "":
			writable = append(writable, m.Upper, overlay.Work(m.Upper))
		case m.Writable:
			writable = append(writable, m.Source)
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.writable = writable
}

// covers tells whether a mount may take the place of one that is there.
func covers(m, before *setup.Mount) bool {
	return before.Target == m.Target && sandbox.OwnFolder(m.Target) && len(m.Layers) > 0 && len(before.Layers) == 0
}

func findFolders(m *setup.Mount) error {
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

// makeTarget sees to it that a mount has a folder to lie on: inside another
// mount's source, which only we may write, or on init's own root.
func (b *box) makeTarget(before []setup.Mount, m *setup.Mount) error {
	for _, over := range slices.Backward(before) { // the longest is the nearest
		rel, ok := strings.CutPrefix(m.Target, over.Target+"/")
		if !ok {
			continue
		}
		if err := makeWithin(&over, rel); err != nil {
			return &sandbox.Error{Message: fmt.Sprintf("The folder %s cannot be made inside %s.", m.Target, over.Target), Err: err}
		}
		return nil
	}
	m.Make = true
	return hostview.CheckPlace(m.Target, b.system, b.spec.Image)
}

func makeWithin(over *setup.Mount, rel string) error {
	if len(over.Layers) > 0 {
		return overlay.Place(over.Layers, over.Upper, rel)
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

// mapAll makes the trees of a plan.
func (b *box) mapAll(p *setup.Plan) ([]*os.File, error) {
	var trees []*os.File
	add := func(m *setup.Mount, view *os.File) error {
		tree, err := b.mapped(m, view)
		if err != nil {
			return err
		}
		m.FD = setup.MountFD + len(trees)
		trees = append(trees, tree)
		return nil
	}
	for i := range p.Mounts {
		if p.Mounts[i].Twin != "" {
			continue
		}
		if err := add(&p.Mounts[i], b.view); err != nil {
			return trees, err
		}
	}
	if p.Trust.Source != "" {
		if err := add(&p.Trust, b.view); err != nil {
			return trees, err
		}
	}
	if p.Image.Source == "" {
		return trees, nil
	}
	// The image is root's inside, so its modes are what they are to others.
	view, err := b.driver.ranges.rootView(b.slot)
	if err != nil {
		return trees, fmt.Errorf("preparing sandbox: %w", err)
	}
	return trees, add(&p.Image, view)
}

func (b *box) mapped(m *setup.Mount, view *os.File) (*os.File, error) {
	if len(m.Layers) > 0 {
		fd, err := overlay.Mapped(m.Layers, m.Upper, int(view.Fd()), b.driver.ranges.agent(b.slot))
		if err != nil {
			return nil, fmt.Errorf("showing %s: %w: %w", m.Target, sandbox.ErrOverlay, err)
		}
		return os.NewFile(uintptr(fd), m.Target), nil
	}
	fd, err := idmap.Tree(m.Source, m.Writable, int(view.Fd()))
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOSYS) {
		return nil, &sandbox.Error{Message: fmt.Sprintf("The file system that holds the folder for %s has no ID-mapped mounts; keep Stint's data on ext4, xfs, btrfs or, from Linux 6.3 on, tmpfs.", m.Target), Err: err}
	}
	if err != nil {
		return nil, fmt.Errorf("preparing sandbox: showing %s: %w", m.Target, err)
	}
	return os.NewFile(uintptr(fd), m.Target), nil
}
