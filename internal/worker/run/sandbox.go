package run

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/stint-dev/stint/internal/sandbox"
)

// prepareSandbox builds the sandbox, or adds the run's mounts and limits to one
// from the pool. No code of the agent runs yet.
func prepareSandbox(ctx context.Context, s *state) (undo, error) {
	if s.sandbox != nil {
		if attached, err := s.attach(ctx); attached || err != nil {
			return s.closeSandbox, err
		}
	}
	begin := s.Now()
	spec := s.dirs.Spec(s.a.Run.ID)
	spec.Image, spec.Resources, spec.Mounts, spec.Network = s.image, s.resources(), s.mounts, s.Networked(ctx, s.driver)
	box, err := s.Sandboxes(s.driver).Prepare(ctx, spec)
	if err != nil {
		return nil, s.startFailed(fmt.Errorf("prepare sandbox: %w", err))
	}
	s.sandbox = box
	metadata := s.since(begin)
	metadata["driver"] = s.driver.Name()
	s.output.System("info", "The sandbox is ready.", metadata)
	return s.closeSandbox, nil
}

// attach adds the run's mounts and limits to a prepared sandbox. If the driver does
// not support this, attach closes the sandbox and returns false. The run then needs a
// new sandbox and starts as slowly as without a pool.
func (s *state) attach(ctx context.Context) (bool, error) {
	err := s.sandbox.Attach(ctx, s.resources(), s.mounts)
	switch {
	case err == nil:
		s.output.System("info", "The sandbox is ready.", map[string]any{"driver": s.driver.Name(), "prepared": "ahead"})
		return true, nil
	case !errors.Is(err, sandbox.ErrAttach):
		return false, s.startFailed(fmt.Errorf("attach to sandbox: %w", err))
	}
	if err := s.closeSandbox(ctx); err != nil {
		return false, fmt.Errorf("close sandbox: %w", err)
	}
	if err := errors.Join(sandbox.Remove(s.dirs.Scratch), os.Mkdir(s.dirs.Scratch, 0o700)); err != nil {
		return false, fmt.Errorf("clear scratch folder: %w", err)
	}
	return false, nil
}

// closeSandbox closes the sandbox and its network. It is idempotent.
func (s *state) closeSandbox(ctx context.Context) error {
	box := s.sandbox
	if box == nil {
		return nil
	}
	s.sandbox = nil
	var err error
	if n := box.Network(); n != nil {
		err = n.Close()
	}
	return errors.Join(err, box.Close(ctx))
}

// resources returns the resource limits of the definition. The server's limits replace
// those that the definition leaves out.
func (s *state) resources() sandbox.Resources {
	r, d := s.Resources, s.definition().Resources
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
