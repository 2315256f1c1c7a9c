package transfer

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"syscall"

	"github.com/stint-dev/stint/internal/cli/folder"
)

// remove deletes what the version lacks, or counts it in a dry run. What
// ignore files name stays, and so do the folders that it lies in.
func (p *pull) remove(ctx context.Context) error {
	if !p.o.Delete {
		return nil
	}
	var extra []string
	err := folder.Walk(ctx, p.root, func(name string, _ fs.DirEntry) error {
		if p.byPath[name] == nil {
			extra = append(extra, name)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, name := range slices.Backward(extra) {
		if !p.o.DryRun {
			switch err := p.root.Remove(name); {
			case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTEMPTY):
				continue
			case err != nil:
				return fmt.Errorf("remove what the version lacks: %w", err)
			}
		}
		p.done.Deleted++
	}
	return nil
}

// remember keeps the chunks of the files that are there now for the next time.
// A cache that cannot be kept is no reason to fail.
func (p *pull) remember() {
	c, err := createCache(p.o.Cache)
	if err != nil {
		return
	}
	defer c.drop()
	now := p.o.Now()
	for _, i := range p.items {
		if i.stat != (stat{}) && i.stat.settled(now) {
			c.add(&cached{path: i.Path, stat: i.stat, sum: i.Sum, chunks: i.Chunks})
		}
	}
	_ = c.keep(true)
}
