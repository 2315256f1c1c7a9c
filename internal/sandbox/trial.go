package sandbox

import (
	"context"
	"errors"
	"os"
	"path/filepath"
)

// Try prepares a sandbox in a new folder below dir, with or without a network, and
// closes it. Drivers call Try to check that they work on this host.
func Try(ctx context.Context, d Driver, dir string, network bool) error {
	return try(ctx, d, dir, func(_ string, s *Spec) error {
		s.Network = network
		return nil
	})
}

// TryOverlay is like Try without a network, with an overlay of two layers as the
// workspace.
func TryOverlay(ctx context.Context, d Driver, dir string) error {
	return try(ctx, d, dir, func(own string, s *Spec) error {
		m := Mount{Target: WorkspaceDir, Layers: []string{filepath.Join(own, "over"), filepath.Join(own, "under")}, Upper: filepath.Join(own, "upper")}
		for _, sub := range append(m.Layers, m.Upper) {
			if err := os.Mkdir(sub, 0o700); err != nil {
				return err
			}
		}
		s.Mounts = []Mount{m}
		return nil
	})
}

func try(ctx context.Context, d Driver, dir string, complete func(own string, s *Spec) error) error {
	return inTrial(ctx, d, dir, complete, func(Sandbox) error { return nil })
}

// inTrial prepares a sandbox whose spec was completed, calls use with it, and closes it.
func inTrial(ctx context.Context, d Driver, dir string, complete func(own string, s *Spec) error, use func(Sandbox) error) (err error) {
	own, err := os.MkdirTemp(dir, "trial-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(own)) }()
	s := Spec{
		ID:   filepath.Base(own),
		Home: filepath.Join(own, "home"), Workspace: filepath.Join(own, "workspace"), Scratch: filepath.Join(own, "scratch"),
	}
	for _, sub := range []string{s.Home, s.Workspace, s.Scratch} {
		if err := os.Mkdir(sub, 0o700); err != nil {
			return err
		}
	}
	if err := complete(own, &s); err != nil {
		return err
	}
	b, err := d.Prepare(ctx, s)
	if err != nil {
		return err
	}
	if n := b.Network(); n != nil {
		defer func() { _ = n.Close() }() // nothing uses the network
	}
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), SetupLimit)
	defer cancel()
	return errors.Join(use(b), b.Close(closing))
}

// TryCommand is like Try, and also runs a command in the sandbox. It returns nil if the
// command ended, whatever its exit code, or if the sandbox does not contain its program.
func TryCommand(ctx context.Context, d Driver, dir string, network bool) error {
	return inTrial(ctx, d, dir, func(_ string, s *Spec) error {
		s.Network = network
		return nil
	}, func(b Sandbox) error {
		err := b.Start(ctx, Command{Argv: []string{"true"}, Env: []string{"PATH=/usr/bin:/bin"}})
		if _, ok := errors.AsType[*Error](err); ok {
			return nil
		}
		if err == nil {
			_, err = b.Wait(ctx)
		}
		return err
	})
}
