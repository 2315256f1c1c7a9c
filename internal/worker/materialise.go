package worker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/stint-dev/stint/internal/sandbox"
	"github.com/stint-dev/stint/internal/sandbox/pool"
)

// materialise gives the run its sandbox, with home and workspace as they were
// left and volumes from the cache. No foreign code runs yet.
func (j *job) materialise() error {
	begin := j.e.c.Now()
	ready, err := j.lodge()
	if err != nil {
		return err
	}
	mounts, err := j.mounts()
	if err != nil {
		return err
	}
	if ready {
		if ready, err = j.adopt(mounts); err != nil {
			return err
		}
	}
	if err := j.fill(); err != nil {
		return err
	}
	metadata := j.since(begin)
	metadata["volumes"] = len(j.a.Plan.Volumes)
	j.record.system("info", "Workspace, home and volumes are ready.", metadata)
	if !ready {
		err = j.prepareSandbox(mounts)
	}
	return err
}

// lodge gives the run its folders: those of a sandbox that waits, or new ones.
func (j *job) lodge() (ready bool, err error) {
	if j.driver == j.e.c.Driver && j.image == "" {
		if p := j.e.pool.Take(); p != nil {
			j.place, ready = p, true
			j.hold(p.Sandbox)
		}
	}
	if !ready {
		if j.place, err = pool.MakeDirs(filepath.Join(j.e.work, j.a.Run.ID)); err != nil {
			return false, err
		}
	}
	// Before the sandbox, so that it is closed first.
	j.clean = append(closers{func(context.Context) error { return sandbox.Remove(j.place.Dir) }}, j.clean...)
	return ready, nil
}

// hold sees to it that a sandbox is closed.
func (j *job) hold(box sandbox.Sandbox) {
	j.sandbox = box
	j.clean.add(box.Close)
	if n := box.Network(); n != nil {
		j.clean.add(func(context.Context) error { return n.Close() })
	}
}

// adopt makes a waiting sandbox this run's. One that takes no mounts is closed,
// and the run gets another in its folders; drivers of such sandboxes are slow
// to start, so that their runs with mounts start as they would without a pool.
func (j *job) adopt(mounts []sandbox.Mount) (bool, error) {
	err := j.sandbox.Attach(j.ctx, j.resources(), mounts)
	switch {
	case err == nil:
		j.record.system("info", "The sandbox is ready.", map[string]any{"driver": j.driver.Name(), "prepared": "ahead"})
		return true, nil
	case !errors.Is(err, sandbox.ErrAttach):
		return false, fmt.Errorf("adopt sandbox: %w", err)
	}
	if err := j.sandbox.Close(j.ctx); err != nil {
		return false, fmt.Errorf("close sandbox: %w", err)
	}
	if err := errors.Join(sandbox.Remove(j.place.Scratch), os.Mkdir(j.place.Scratch, 0o700)); err != nil {
		return false, fmt.Errorf("clear scratch folder: %w", err)
	}
	return false, nil
}

// prepareSandbox builds the sandbox of a run that found none waiting.
func (j *job) prepareSandbox(mounts []sandbox.Mount) error {
	begin := j.e.c.Now()
	s := j.place.Spec(j.a.Run.ID)
	s.Image, s.Resources, s.Mounts, s.Network = j.image, j.resources(), mounts, j.e.networked(j.ctx, j.driver)
	box, err := starter{j.driver, j.e.forks}.Prepare(j.ctx, s)
	if err != nil {
		return fmt.Errorf("prepare sandbox: %w", err)
	}
	j.hold(box)
	metadata := j.since(begin)
	metadata["driver"] = j.driver.Name()
	j.record.system("info", "The sandbox is ready.", metadata)
	return nil
}

func (j *job) resources() sandbox.Resources {
	r := j.e.c.Resources
	d := j.a.Plan.Definition.Resources
	if d == nil {
		return r
	}
	if d.CPU > 0 {
		r.CPU = d.CPU
	}
	if d.Memory > 0 {
		r.Memory = int64(d.Memory)
	}
	if d.Disk > 0 {
		r.Disk = int64(d.Disk)
	}
	if d.Pids > 0 {
		r.Pids = d.Pids
	}
	return r
}
