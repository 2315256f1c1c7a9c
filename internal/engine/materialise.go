package engine

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/stint-dev/stint/internal/sandbox"
	"github.com/stint-dev/stint/internal/spec"
)

// materialise lays out the folders of the run: home and workspace as they were
// left, volumes from the cache.
func (j *job) materialise() error {
	begin := j.e.c.Now()
	if err := os.Mkdir(j.dir, 0o700); err != nil {
		return fmt.Errorf("make work folder: %w", err)
	}
	j.clean.add(func(context.Context) error { return removeTree(j.dir) })
	s := j.a.Spec
	j.homeFrom, j.workspaceFrom = s.Home, s.Workspace
	var err error
	if j.home, err = j.folder("home", s.Home); err != nil {
		return fmt.Errorf("lay out home: %w", err)
	}
	if j.workspace, err = j.folder("workspace", s.Workspace); err != nil {
		return fmt.Errorf("lay out workspace: %w", err)
	}
	mounts := make([]sandbox.Mount, 0, len(s.Volumes)+1)
	for i, v := range s.Volumes {
		source, err := j.volume(i, v)
		if err != nil {
			return fmt.Errorf("lay out volume %s: %w", v.Name, err)
		}
		mounts = append(mounts, sandbox.Mount{Source: source, Target: v.Path, Writable: v.Writable})
	}
	if p := s.Definition.ArtifactPath(); p != sandbox.WorkspaceDir {
		mounts = append(mounts, sandbox.Mount{Source: j.workspace, Target: p, Writable: true})
	}
	metadata := j.since(begin)
	metadata["volumes"] = len(s.Volumes)
	j.record.system("info", "Workspace, home and volumes are ready.", metadata)
	return j.prepareSandbox(mounts)
}

// folder makes a private, writable folder with the files of a stored tree.
func (j *job) folder(name, digest string) (string, error) {
	dir := filepath.Join(j.dir, name)
	if err := os.Mkdir(dir, 0o755); err != nil {
		return "", err
	}
	if digest == "" {
		return dir, nil
	}
	return dir, j.e.c.Library.Checkout(j.ctx, j.a.OrgID, digest, dir)
}

// volume gives the folder to mount: the shared checkout, or a private copy
// where the agent may write.
func (j *job) volume(i int, v spec.Volume) (string, error) {
	if v.Writable {
		return j.folder(fmt.Sprintf("volume-%d", i), v.Digest)
	}
	dir, release, err := j.e.cache.acquire(j.ctx, j.a.OrgID, v.Digest)
	if err != nil {
		return "", err
	}
	j.clean.add(func(context.Context) error { release(); return nil })
	return dir, nil
}
