package files

import (
	"context"
	"strings"
	"sync/atomic"
)

// entrySet gathers the entries of a foreign tree in any order, and checks their
// sizes and links.
type entrySet struct {
	limits *Limits
	sort   *externalSort
	total  atomic.Int64      // bytes of all files
	grow   func(int64) error // is called with the size of each hard link; may be nil
	dotted []*entry          // links whose targets go up again
}

func newEntrySet(l *Limits, tempDir string) *entrySet {
	return &entrySet{limits: l, sort: newExternalSort(tempDir)}
}

// close frees the disk space.
func (u *entrySet) close() error { return u.sort.close() }

// writeTo adds the entries to a tree in path order, each after check, which may
// be nil, and completes the tree.
func (u *entrySet) writeTo(ctx context.Context, take func(*entry) error, check func(*entry) error) error {
	tree := treeBuilder{limits: u.limits, take: take}
	for e, err := range u.sort.sorted() {
		if err == nil && check != nil {
			err = check(e)
		}
		if err == nil {
			err = tree.add(e)
		}
		if err == nil && ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		if err != nil {
			return err
		}
	}
	return tree.flush()
}

// hardlink is the kind of entries that wait for the content of their target.
const hardlink kind = 0xff

// maxDotted bounds the links whose targets go up again.
const maxDotted = 20_000

func (u *entrySet) checkSize(e *entry, size int64) error {
	if size > u.limits.FileBytes {
		return tooLarge("The file '%s' has more than %d bytes.", printable(e.path), u.limits.FileBytes)
	}
	if u.total.Add(size) > u.limits.TotalBytes {
		return tooLarge("The files have more than %d bytes together.", u.limits.TotalBytes)
	}
	return nil
}

// add takes complete entries in the order of the archive.
func (u *entrySet) add(e *entry) error {
	if e.kind == hardlink {
		if err := u.resolve(e); err != nil {
			return err
		}
	}
	if e.kind == symlink {
		dots, err := u.limits.checkTarget(e.path, e.target)
		if err != nil {
			return err
		}
		if dots {
			u.dotted = append(u.dotted, e)
		}
		if len(u.dotted) > maxDotted {
			return invalid("More than %d links have targets with '..' after a name.", maxDotted)
		}
	}
	return u.sort.add(e)
}

// resolve makes a hard link what its target is at this point of the archive.
func (u *entrySet) resolve(e *entry) error {
	target, err := u.sort.find(e.target)
	if err != nil {
		return err
	}
	if target == nil || target.kind == folder {
		return invalid("The link '%s' refers to '%s', which is no file that comes before it.", printable(e.path), printable(e.target))
	}
	path := e.path
	*e = *target
	e.path = path
	if err := u.checkSize(e, e.size); err != nil {
		return err
	}
	if u.grow == nil {
		return nil
	}
	return u.grow(e.size)
}

// checkDotted looks at links such as a/../../b, which stay in the tree as
// long as a is no link itself.
func (u *entrySet) checkDotted(ctx context.Context) error {
	for _, e := range u.dotted {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		var failed error
		inside := walkTarget(e.path, e.target, func(at []string, known int) bool {
			for i := known; i < min(len(at), u.limits.Depth); i++ { // nothing lies deeper
				passed, err := u.sort.find(strings.Join(at[:i+1], "/"))
				if failed = err; err != nil || passed != nil && passed.kind == symlink {
					return false
				}
			}
			return true
		})
		switch {
		case failed != nil:
			return failed
		case !inside:
			return invalid("The link '%s' may leave the tree: its target '%s' goes up from a link.", printable(e.path), printable(e.target))
		}
	}
	return nil
}
