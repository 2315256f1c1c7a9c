package diff

import (
	"context"
	"path"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/files/format"
)

// MaxRenames is the maximum number of removed files, and of added files, up to which
// renames are searched. If one of the numbers is larger, no renames are reported.
const MaxRenames = 10_000

// renames holds the files that have different paths but equal content in two trees.
type renames struct {
	from map[string]*format.Entry // new path → old entry without chunks
	gone map[string]struct{}      // the old paths
}

type diffKey struct{ org, from, to string }

// renames pairs the files that only one of two trees has, if their contents are
// equal. The result is cached, because trees do not change.
func (d *Differ) renames(ctx context.Context, org, from, to string) (*renames, error) {
	if from == "" || to == "" || from == to {
		return &renames{}, nil
	}
	key := diffKey{org, from, to}
	if r, ok := d.pairs.Get(key); ok {
		return r, nil
	}
	r, err := d.findRenames(ctx, key)
	if err != nil {
		return nil, err
	}
	d.pairs.Put(key, r)
	return r, nil
}

func (d *Differ) findRenames(ctx context.Context, key diffKey) (*renames, error) {
	var removed, added []*format.Entry // files with content, in path order
	err := d.compare(ctx, key.org, key.from, key.to, "", func(old, new *format.Entry) bool {
		switch {
		case new == nil && old.Kind == format.File && old.Size > 0:
			removed = append(removed, withoutChunks(old))
		case old == nil && new.Kind == format.File && new.Size > 0:
			added = append(added, withoutChunks(new))
		}
		return max(len(removed), len(added)) <= MaxRenames
	})
	if err != nil || max(len(removed), len(added)) > MaxRenames {
		return &renames{}, err
	}
	return pairRenames(removed, added), nil
}

// withoutChunks returns a copy of the entry without chunks.
func withoutChunks(e *format.Entry) *format.Entry {
	o := *e
	o.Chunks = nil
	return &o
}

// pairRenames pairs files with equal content: first those that kept their name in
// another folder, then the others, both in path order.
func pairRenames(removed, added []*format.Entry) *renames {
	r := &renames{from: map[string]*format.Entry{}, gone: map[string]struct{}{}}
	type named struct {
		sum  format.Hash
		name string
	}
	byName, bySum := map[named][]*format.Entry{}, map[format.Hash][]*format.Entry{}
	for _, e := range removed {
		n := named{e.SHA256, path.Base(e.Path)}
		byName[n] = append(byName[n], e)
		bySum[e.SHA256] = append(bySum[e.SHA256], e)
	}
	for _, e := range added {
		n := named{e.SHA256, path.Base(e.Path)}
		byName[n] = r.pair(byName[n], e)
	}
	for _, e := range added {
		if r.from[e.Path] == nil {
			bySum[e.SHA256] = r.pair(bySum[e.SHA256], e)
		}
	}
	return r
}

// pair pairs e with the first unpaired candidate and returns the candidates after
// it.
func (r *renames) pair(candidates []*format.Entry, e *format.Entry) []*format.Entry {
	for i, old := range candidates {
		if _, taken := r.gone[old.Path]; !taken {
			r.gone[old.Path] = struct{}{}
			r.from[e.Path] = old
			return candidates[i+1:]
		}
	}
	return nil
}

// change describes how the entries of a path in both trees differ. One of them may
// be nil. For the old path of a renamed file, change returns nil, because the rename
// is reported under the new path.
func (r *renames) change(old, new *format.Entry) *stint.FileChange {
	c := &stint.FileChange{Change: stint.FileChanged}
	switch {
	case new == nil:
		if _, renamed := r.gone[old.Path]; renamed {
			return nil
		}
		c.Change = stint.FileRemoved
	case old == nil:
		c.Change = stint.FileAdded
		if was := r.from[new.Path]; was != nil {
			old, c.Change = was, stint.FileRenamed
		}
	}
	if old != nil {
		from := old.Public()
		c.Path, c.From = from.Path, &from
	}
	if new != nil {
		to := new.Public()
		c.Path, c.To = to.Path, &to
	}
	return c
}
