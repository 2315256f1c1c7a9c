package run

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/stint-dev/stint/internal/definition"
	"github.com/stint-dev/stint/internal/files"
	"github.com/stint-dev/stint/internal/framework"
	"github.com/stint-dev/stint/internal/sandbox"
	"github.com/stint-dev/stint/internal/sandbox/pool"
	"github.com/stint-dev/stint/internal/worker/checkout"
)

// layout contains the folders of a run and the mounts of its sandbox.
type layout struct {
	overlays  bool // the sandbox can mount overlays
	checkouts []*checkout.Checkout
	dirs      *pool.Dirs         // folders of the run
	base      *checkout.Checkout // lower layers of the workspace; nil if the workspace is a plain folder
	upper     string             // upper layer of the workspace, if it has a base
	mounts    []sandbox.Mount
}

// directories fills the run's folders and lists its mounts.
//
// Volumes and a large workspace are checked out into the cache and mounted read-only,
// with an overlay for the agent's changes if they are writable. Home and a small
// workspace are checked out into the run's own folders. If the sandbox cannot mount
// overlays, each snapshot that would need an overlay is copied.
func directories(ctx context.Context, s *state) (undo, error) {
	begin := s.Now()
	if err := s.allocateDirs(); err != nil {
		return nil, err
	}
	if err := s.listMounts(ctx); err != nil {
		return s.releaseDirs, err
	}
	if err := s.fill(ctx); err != nil {
		return s.releaseDirs, err
	}
	metadata := s.since(begin)
	metadata["volumes"] = len(s.a.Plan.Volumes)
	s.output.System("info", "Workspace, home and volumes are ready.", metadata)
	return s.releaseDirs, nil
}

// allocateDirs takes a sandbox and its folders from the pool. If the run needs another
// isolator or an image, or the pool is empty, it creates new folders.
func (s *state) allocateDirs() (err error) {
	if s.driver == s.Driver && s.image == "" {
		if s.dirs = s.Pool.Take(); s.dirs != nil {
			s.sandbox = s.dirs.Sandbox
			return nil
		}
	}
	s.dirs, err = pool.MakeDirs(filepath.Join(s.WorkDir, s.a.Run.ID))
	return err
}

// releaseDirs closes the sandbox, leaves the run's folders, and releases its
// checkouts.
func (s *state) releaseDirs(ctx context.Context) error {
	err := errors.Join(s.closeSandbox(ctx), s.leaveDirs())
	for _, c := range s.checkouts {
		c.Release()
	}
	return err
}

// leaveDirs removes the run's folders. If this worker has lost the run together with its
// lease, or stops, it keeps them, so that Salvage can store the state.
func (s *state) leaveDirs() error {
	if s.started && s.life.stateLost() && s.Keep != nil {
		return s.Keep(s.dirs.Dir)
	}
	return sandbox.Remove(s.dirs.Dir)
}

// listMounts sets the mounts of volumes, workspace, and agent CLI.
func (s *state) listMounts(ctx context.Context) error {
	s.overlays = s.report(ctx, s.driver).Overlay
	for i, v := range s.a.Plan.Volumes {
		m, err := s.volumeMount(ctx, fmt.Sprintf("volume-%d", i), v)
		if err != nil {
			return fmt.Errorf("mount volume %s: %w", v.Name, err)
		}
		s.mounts = append(s.mounts, m)
	}
	workspace, err := s.workspaceMount(ctx)
	if err != nil {
		return fmt.Errorf("mount workspace: %w", err)
	}
	if workspace.Target != "" {
		s.mounts = append(s.mounts, workspace)
	}
	s.mounts = append(s.mounts, s.cli.Mounts...)
	return nil
}

// workspaceMount returns an overlay over a large workspace if the sandbox can mount
// overlays. Any other workspace is checked out into the run's folder dirs.Workspace, which
// every sandbox shows, even a prepared one. For such a workspace, workspaceMount returns a
// mount only if the definition has another path for the workspace, and otherwise the zero
// Mount.
func (s *state) workspaceMount(ctx context.Context) (m sandbox.Mount, err error) {
	digest, target := s.a.Plan.Workspace, s.definition().ArtifactPath()
	large := false
	if s.overlays && digest != "" {
		ref, err := s.Library.Stat(ctx, s.a.OrgID, digest)
		if err != nil {
			return m, err
		}
		large = isLarge(ref)
	}
	if !large {
		if target != sandbox.WorkspaceDir {
			m = sandbox.Mount{Source: s.dirs.Workspace, Target: target, Writable: true}
		}
		return m, nil
	}
	if s.base, err = s.acquire(ctx, digest); err != nil {
		return m, err
	}
	m = sandbox.Mount{Layers: s.base.Layers(), Target: sandbox.WorkspaceDir}
	if target != sandbox.WorkspaceDir {
		m.Alias = []string{target}
	}
	m.Upper, err = s.upperLayer("workspace")
	s.upper = m.Upper
	return m, err
}

// isLarge reports whether a snapshot is worth caching for the session's next run. A
// smaller snapshot is checked out as fast as a cached one is mounted.
func isLarge(snapshot files.Ref) bool { return snapshot.Size >= 1<<20 || snapshot.Files >= 200 }

// volumeMount returns a mount of a volume's checkout: read-only, or with an overlay if
// the volume is writable. If the sandbox would need an overlay but cannot mount one,
// volumeMount returns a mount of a private copy.
func (s *state) volumeMount(ctx context.Context, name string, v definition.Volume) (sandbox.Mount, error) {
	if v.Writable && !s.overlays {
		return s.copyMount(ctx, name, v)
	}
	c, err := s.acquire(ctx, v.Digest)
	if err != nil {
		return sandbox.Mount{}, err
	}
	layers := c.Layers()
	if len(layers) > 1 && !s.overlays {
		return s.copyMount(ctx, name, v)
	}
	if !v.Writable {
		return sandbox.Mount{Layers: layers, Target: v.Path}, nil
	}
	upper, err := s.upperLayer(name)
	return sandbox.Mount{Layers: layers, Target: v.Path, Upper: upper}, err
}

// copyMount copies a volume for this run and returns a mount of the copy.
func (s *state) copyMount(ctx context.Context, name string, v definition.Volume) (sandbox.Mount, error) {
	dir := filepath.Join(s.dirs.Dir, name)
	if err := os.Mkdir(dir, 0o755); err != nil {
		return sandbox.Mount{}, err
	}
	return sandbox.Mount{Source: dir, Target: v.Path, Writable: v.Writable}, s.checkOut(ctx, v.Digest, dir)
}

// acquire takes a checkout from the cache until the end of the run.
func (s *state) acquire(ctx context.Context, digest string) (*checkout.Checkout, error) {
	c, err := s.Cache.Acquire(ctx, s.a.OrgID, digest)
	if err == nil {
		s.checkouts = append(s.checkouts, c)
	}
	return c, err
}

// upperLayer makes an empty folder for the agent's changes of a snapshot. The driver
// keeps a folder of its own in the same parent folder.
func (s *state) upperLayer(name string) (string, error) {
	dir := filepath.Join(s.dirs.Dir, "layer-"+name, "upper")
	if err := errors.Join(os.Mkdir(filepath.Dir(dir), 0o700), os.Mkdir(dir, 0o755)); err != nil {
		return "", fmt.Errorf("make a layer: %w", err)
	}
	return dir, nil
}

// fill writes the run's files into its folders.
func (s *state) fill(ctx context.Context) error {
	if err := s.checkOut(ctx, s.a.Plan.Home, s.dirs.Home); err != nil {
		return fmt.Errorf("check out home: %w", err)
	}
	if s.base == nil {
		if err := s.checkOut(ctx, s.a.Plan.Workspace, s.dirs.Workspace); err != nil {
			return fmt.Errorf("check out workspace: %w", err)
		}
	}
	if err := os.WriteFile(filepath.Join(s.dirs.Run, framework.PromptFile), []byte(s.a.Run.Prompt), 0o644); err != nil {
		return fmt.Errorf("write prompt: %w", err)
	}
	return nil
}

// checkOut writes the files of a snapshot into an empty folder. An empty digest is the
// empty snapshot.
func (s *state) checkOut(ctx context.Context, digest, dir string) error {
	if digest == "" {
		return nil
	}
	return s.Starts.Snapshots(s.Library).Checkout(ctx, s.a.OrgID, digest, dir)
}
