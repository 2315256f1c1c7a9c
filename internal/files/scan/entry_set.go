package scan

import (
	"context"
	"strings"
	"sync/atomic"

	"github.com/stint-dev/stint/internal/files/format"
	"github.com/stint-dev/stint/internal/files/limits"
	"github.com/stint-dev/stint/internal/files/spool"
)

// EntrySet collects the entries of an untrusted tree in any order, and checks
// their sizes and links.
type EntrySet struct {
	Limits *limits.Limits
	sort   *spool.Sorter
	total  atomic.Int64      // bytes of all files
	grow   func(int64) error // called with the size of each hard link; may be nil
	Dotted []*format.Entry   // links with targets that have ".." after a name
}

// NewEntrySet returns an empty set that spools to tempDir.
func NewEntrySet(l *limits.Limits, tempDir string) *EntrySet {
	return &EntrySet{Limits: l, sort: spool.NewSorter(tempDir)}
}

// Close frees the disk space.
func (u *EntrySet) Close() error { return u.sort.Close() }

// WriteTo passes the entries to take in path order, with missing parent folders. If
// check is not nil, it is called for each entry before.
func (u *EntrySet) WriteTo(ctx context.Context, take func(*format.Entry) error, check func(*format.Entry) error) error {
	tree := treeBuilder{limits: u.Limits, take: take}
	for e, err := range u.sort.Sorted() {
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

// hardlink is the kind of entries that are replaced by a copy of the entry at Target.
const hardlink format.Kind = 0xff

// maxDotted is the maximum number of links with targets that have ".." after a name.
const maxDotted = 20_000

// CheckSize counts a file of size bytes and checks it against the limits.
func (u *EntrySet) CheckSize(e *format.Entry, size int64) error {
	if size > u.Limits.FileBytes {
		return limits.TooLarge("The file '%s' has more than %d bytes.", limits.Printable(e.Path), u.Limits.FileBytes)
	}
	if u.total.Add(size) > u.Limits.TotalBytes {
		return limits.TooLarge("The files have more than %d bytes together.", u.Limits.TotalBytes)
	}
	return nil
}

// Add adds a complete entry. A hard link must follow its target.
func (u *EntrySet) Add(e *format.Entry) error {
	if e.Kind == hardlink {
		if err := u.resolve(e); err != nil {
			return err
		}
	}
	if e.Kind == format.Symlink {
		dots, err := u.Limits.CheckTarget(e.Path, e.Target)
		if err != nil {
			return err
		}
		if dots {
			u.Dotted = append(u.Dotted, e)
		}
		if len(u.Dotted) > maxDotted {
			return limits.Invalid("More than %d links have targets with '..' after a name.", maxDotted)
		}
	}
	return u.sort.Add(e)
}

// resolve turns a hard link into a copy of its target.
func (u *EntrySet) resolve(e *format.Entry) error {
	target, err := u.sort.Find(e.Target)
	if err != nil {
		return err
	}
	if target == nil || target.Kind == format.Folder {
		return limits.Invalid("The link '%s' refers to '%s', which is not an earlier file of the archive.", limits.Printable(e.Path), limits.Printable(e.Target))
	}
	path := e.Path
	*e = *target
	e.Path = path
	if err := u.CheckSize(e, e.Size); err != nil {
		return err
	}
	if u.grow == nil {
		return nil
	}
	return u.grow(e.Size)
}

// CheckDotted checks the links in Dotted. For example, a target a/../../b may leave
// the tree if a is a link.
func (u *EntrySet) CheckDotted(ctx context.Context) error {
	for _, e := range u.Dotted {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		var failed error
		inside := limits.WalkTarget(e.Path, e.Target, func(at []string, known int) bool {
			for i := known; i < min(len(at), u.Limits.Depth); i++ { // no entry is deeper
				passed, err := u.sort.Find(strings.Join(at[:i+1], "/"))
				if failed = err; err != nil || passed != nil && passed.Kind == format.Symlink {
					return false
				}
			}
			return true
		})
		switch {
		case failed != nil:
			return failed
		case !inside:
			return limits.Invalid("The link '%s' may leave the tree: its target '%s' goes up from a link.", limits.Printable(e.Path), limits.Printable(e.Target))
		}
	}
	return nil
}
