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

// deleteExtra deletes entries that the version lacks, or counts them in a dry run.
// It keeps ignore files, ignored entries, and their parent folders.
func (p *pull) deleteExtra(ctx context.Context) error {
	if !p.o.Delete {
		return nil
	}
	var extra []string
	keep := map[string]bool{} // folders with entries to keep
	err := localdir.Walk(ctx, p.root, ".", func(name string, d fs.DirEntry, ignored bool) error {
		if ignored || d.Name() == localdir.IgnoreFile && d.Type().IsRegular() {
			for dir := path.Dir(name); !keep[dir]; dir = path.Dir(dir) {
				keep[dir] = true
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
		if keep[name] {
			continue
		}
		if !p.o.DryRun {
			switch err := p.root.Remove(name); {
			case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTEMPTY):
				continue
			case err != nil:
				return fmt.Errorf("delete an entry that the version lacks: %w", err)
			}
		}
		p.done.Deleted++
	}
	return nil
}

// checkNoIgnored returns an error if ignore files exclude an entry at or below name.
func (p *pull) checkNoIgnored(ctx context.Context, name string) error {
	return localdir.Walk(ctx, p.root, name, func(at string, _ fs.DirEntry, ignored bool) error {
		if ignored {
			return fmt.Errorf("there is a folder of that name with '%s', which a %s file excludes: move that away", at, localdir.IgnoreFile)
		}
		return nil
	})
}

// removeParts removes temporary files of interrupted pulls. Errors are ignored,
// because pushes skip such files.
func (p *pull) removeParts() {
	for _, name := range p.parts {
		_ = p.root.Remove(name)
	}
}

// saveCache writes the cache for the next transfer. Errors are ignored.
func (p *pull) saveCache() {
	c, err := createCache(p.o.Cache)
	if err != nil {
		return
	}
	defer c.discard()
	now := p.o.Now()
	for _, i := range p.items {
		if i.stat != (fileStat{}) && i.stat.settled(now) {
			c.add(&cachedFile{path: i.Path, stat: i.stat, sum: i.SHA256, chunks: i.Chunks})
		}
	}
	_ = c.commit(true)
}
