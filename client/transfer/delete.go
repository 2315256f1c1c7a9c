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

// deleteExtra deletes the entries of the folder that are not in the version, if the
// option Delete is set. In a dry run it only counts them. It keeps ignore files,
// ignored entries, and their parent folders.
func (p *pull) deleteExtra(ctx context.Context) error {
	if !p.o.Delete {
		return nil
	}
	var extra []string
	keep := map[string]bool{} // folders that contain entries to keep
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
	for _, name := range slices.Backward(extra) { // a folder's entries before the folder
		if keep[name] {
			continue
		}
		if !p.o.DryRun {
			switch err := p.root.Remove(name); {
			case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTEMPTY):
				continue
			case err != nil:
				return fmt.Errorf("delete an entry that is not in the version: %w", err)
			}
		}
		p.done.Deleted++
	}
	return nil
}

// checkNoIgnored returns an error if name or an entry below it is ignored.
func (p *pull) checkNoIgnored(ctx context.Context, name string) error {
	return localdir.Walk(ctx, p.root, name, func(at string, _ fs.DirEntry, ignored bool) error {
		if ignored {
			return fmt.Errorf("a folder of that name contains '%s', which a %s file excludes; move this entry elsewhere", at, localdir.IgnoreFile)
		}
		return nil
	})
}

// removeParts removes temporary files of interrupted pulls. It ignores errors, because
// a push skips such files.
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
