package worker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/stint-dev/stint/internal/definition"
	"github.com/stint-dev/stint/internal/framework"
	"github.com/stint-dev/stint/internal/sandbox"
	"github.com/stint-dev/stint/internal/worker/checkout"
)

// mounts lists what the run shows beside home and the workspace's own folder.
//
// Trees lie ready in the cache and are shown as they lie there; what the agent
// changes goes to a layer of the run's. Where sandboxes cannot lay folders over
// each other, what may be changed is copied.
func (j *job) mounts() ([]sandbox.Mount, error) {
	s := j.a.Plan
	j.overlays = j.e.report(j.ctx, j.driver).Overlay
	mounts := make([]sandbox.Mount, 0, len(s.Volumes)+1)
	for i, v := range s.Volumes {
		m, err := j.volume(i, v)
		if err != nil {
			return nil, fmt.Errorf("lay out volume %s: %w", v.Name, err)
		}
		mounts = append(mounts, m)
	}
	workspace, err := j.workspaceMount()
	if err != nil {
		return nil, fmt.Errorf("lay out workspace: %w", err)
	}
	if workspace.Target != "" {
		mounts = append(mounts, workspace)
	}
	return append(mounts, j.program.Mounts...), nil
}

// workspaceMount lays the workspace that the run goes on from under a layer of
// its own. A small one, and each without overlays, is a folder, which is shown
// by a mount only where the agent wants it elsewhere too: it can be filled
// though the sandbox was prepared before.
func (j *job) workspaceMount() (m sandbox.Mount, err error) {
	digest, elsewhere := j.a.Plan.Workspace, j.a.Plan.Definition.ArtifactPath()
	laid := false
	if j.overlays && digest != "" {
		tree, err := j.e.c.Library.Stat(j.ctx, j.a.OrgID, digest)
		if err != nil {
			return m, err
		}
		laid = large(tree)
	}
	if !laid {
		if elsewhere != sandbox.WorkspaceDir {
			m = sandbox.Mount{Source: j.place.Workspace, Target: elsewhere, Writable: true}
		}
		return m, nil
	}
	if j.base, err = j.acquire(digest); err != nil {
		return m, err
	}
	m = sandbox.Mount{Layers: j.base.Layers(), Target: sandbox.WorkspaceDir}
	if elsewhere != sandbox.WorkspaceDir {
		m.Alias = []string{elsewhere}
	}
	m.Upper, err = j.layer("workspace")
	j.upper = m.Upper
	return m, err
}

// acquire takes a tree from the cache for as long as the job lives.
func (j *job) acquire(digest string) (*checkout.Checkout, error) {
	tree, err := j.e.cache.Acquire(j.ctx, j.a.OrgID, digest)
	if err != nil {
		return nil, err
	}
	// Before the sandbox that shows it, so that it is given back after.
	j.clean = append(closers{func(context.Context) error { tree.Release(); return nil }}, j.clean...)
	return tree, nil
}

// layer makes an empty folder for what the agent changes of a tree. The driver
// keeps one of its own beside it.
func (j *job) layer(name string) (string, error) {
	dir := filepath.Join(j.place.Dir, "layer-"+name, "upper")
	if err := errors.Join(os.Mkdir(filepath.Dir(dir), 0o700), os.Mkdir(dir, 0o755)); err != nil {
		return "", fmt.Errorf("make a layer: %w", err)
	}
	return dir, nil
}

// volume shows a volume: as it lies ready, with a layer of the run's own or as
// a private copy.
func (j *job) volume(i int, v definition.Volume) (sandbox.Mount, error) {
	name := fmt.Sprintf("volume-%d", i)
	if v.Writable && !j.overlays {
		return j.copied(name, v)
	}
	tree, err := j.acquire(v.Digest)
	if err != nil {
		return sandbox.Mount{}, err
	}
	layers := tree.Layers()
	if len(layers) > 1 && !j.overlays {
		return j.copied(name, v)
	}
	if !v.Writable {
		return sandbox.Mount{Layers: layers, Target: v.Path}, nil
	}
	upper, err := j.layer(name)
	return sandbox.Mount{Layers: layers, Target: v.Path, Upper: upper}, err
}

// copied shows a volume as a copy that is this run's.
func (j *job) copied(name string, v definition.Volume) (sandbox.Mount, error) {
	dir := filepath.Join(j.place.Dir, name)
	if err := os.Mkdir(dir, 0o755); err != nil {
		return sandbox.Mount{}, err
	}
	return sandbox.Mount{Source: dir, Target: v.Path, Writable: v.Writable}, j.checkout(v.Digest, dir)
}

// fill puts the run's files into its folders.
func (j *job) fill() error {
	s := j.a.Plan
	if err := j.checkout(s.Home, j.place.Home); err != nil {
		return fmt.Errorf("lay out home: %w", err)
	}
	if j.base == nil {
		if err := j.checkout(s.Workspace, j.place.Workspace); err != nil {
			return fmt.Errorf("lay out workspace: %w", err)
		}
	}
	if err := os.WriteFile(filepath.Join(j.place.Run, framework.PromptFile), []byte(j.a.Run.Prompt), 0o644); err != nil {
		return fmt.Errorf("write prompt: %w", err)
	}
	return nil
}

// checkout puts the files of a stored tree into an empty folder.
func (j *job) checkout(digest, dir string) error {
	if digest == "" {
		return nil
	}
	return j.e.checkouts.Checkout(j.ctx, j.a.OrgID, digest, dir)
}
