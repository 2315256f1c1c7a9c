package transfer

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"syscall"

	"github.com/stint-dev/stint/internal/localdir"
)

// remove deletes what the version lacks, or counts it in a dry run. Ignore
// files stay, and so do what they name and the folders that it lies in.
func (p *pull) remove(ctx context.Context) error {
	if !p.o.Delete {
		return nil
	}
	var extra []string
	holds := map[string]bool{} // folders in which something stays
	err := localdir.Walk(ctx, p.root, ".", func(name string, d fs.DirEntry, ignored bool) error {
		if ignored || d.Name() == localdir.IgnoreFile && d.Type().IsRegular() {
			for dir := path.Dir(name); !holds[dir]; dir = path.Dir(dir) {
				holds[dir] = true
			}
		} else if p.byPath[name] == nil {
			extra = append(extra, name)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, name := range slices.Backward(extra) {
		if holds[name] {
			continue
		}
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

// spares fails where ignore files name something at or below name, which is to
// make room.
func (p *pull) spares(ctx context.Context, name string) error {
	return localdir.Walk(ctx, p.root, name, func(at string, _ fs.DirEntry, ignored bool) error {
		if ignored {
			return fmt.Errorf("a folder lies in its place, with '%s', which a %s file names: move that away", at, localdir.IgnoreFile)
		}
		return nil
	})
}

// removeParts removes what interrupted pulls left in the folders that were
// looked through. One that cannot be removed is no reason to fail: it is of no
// push.
func (p *pull) removeParts() {
	for _, name := range p.remains {
		_ = p.root.Remove(name)
	}
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
