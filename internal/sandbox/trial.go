package sandbox

import (
	"context"
	"errors"
	"os"
	"path/filepath"
)

// Try makes a sandbox in which nothing runs, in a folder of its own below dir,
// and takes it down again. Drivers try themselves with it before they say that
// they work.
func Try(ctx context.Context, d Driver, dir string, network bool) (err error) {
	own, err := os.MkdirTemp(dir, "trial-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(own)) }()
	s := Spec{
		ID: filepath.Base(own), Network: network,
		Home: filepath.Join(own, "home"), Workspace: filepath.Join(own, "workspace"), Scratch: filepath.Join(own, "scratch"),
	}
	for _, sub := range []string{s.Home, s.Workspace, s.Scratch} {
		if err := os.Mkdir(sub, 0o700); err != nil {
			return err
		}
	}
	b, err := d.Prepare(ctx, s)
	if err != nil {
		return err
	}
	return b.Close(context.WithoutCancel(ctx))
}
