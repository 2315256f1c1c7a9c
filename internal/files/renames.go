package files

import (
	"context"
	"path"

	"github.com/stint-dev/stint"
)

// maxRenames bounds the files among which renames are sought: so many that
// were removed, and so many that were added. With more, none are told.
const maxRenames = 10_000

// renames are the files that two trees have under different paths.
type renames struct {
	from map[string]*entry   // new path → what it was, without chunks
	gone map[string]struct{} // the old paths
}

type diffKey struct{ org, from, to string }

// renames pairs the files that only one of two trees has by their contents.
// Trees do not change, so the pairs are remembered.
func (d *differ) renames(ctx context.Context, org, from, to string) (*renames, error) {
	if from == "" || to == "" || from == to {
		return &renames{}, nil
	}
	key := diffKey{org, from, to}
	if r, ok := d.pairs.get(key); ok {
		return r, nil
	}
	r, err := d.findRenames(ctx, key)
	if err != nil {
		return nil, err
	}
	d.pairs.put(key, r)
	return r, nil
}

func (d *differ) findRenames(ctx context.Context, key diffKey) (*renames, error) {
	var removed, added []*entry // files that have content, in path order
	err := d.compare(ctx, key.org, key.from, key.to, "", func(old, new *entry) bool {
		switch {
		case new == nil && old.kind == file && old.size > 0:
			removed = append(removed, old.outline())
		case old == nil && new.kind == file && new.size > 0:
			added = append(added, new.outline())
		}
		return max(len(removed), len(added)) <= maxRenames
	})
	if err != nil || max(len(removed), len(added)) > maxRenames {
		return &renames{}, err
	}
	return pairRenames(removed, added), nil
}

// outline is the entry without its chunks.
func (e *entry) outline() *entry {
	o := *e
	o.chunks = nil
	return &o
}

// pairRenames pairs files of equal content: first those that kept their name
// in another folder, then the others, both in path order.
func pairRenames(removed, added []*entry) *renames {
	r := &renames{from: map[string]*entry{}, gone: map[string]struct{}{}}
	type named struct {
		sum  hash
		name string
	}
	byName, bySum := map[named][]*entry{}, map[hash][]*entry{}
	for _, e := range removed {
		n := named{e.sum, path.Base(e.path)}
		byName[n] = append(byName[n], e)
		bySum[e.sum] = append(bySum[e.sum], e)
	}
	for _, e := range added {
		n := named{e.sum, path.Base(e.path)}
		byName[n] = r.pair(byName[n], e)
	}
	for _, e := range added {
		if r.from[e.path] == nil {
			bySum[e.sum] = r.pair(bySum[e.sum], e)
		}
	}
	return r
}

// pair says that e was the first of the candidates that is free, and gives
// those after it.
func (r *renames) pair(candidates []*entry, e *entry) []*entry {
	for i, old := range candidates {
		if _, taken := r.gone[old.path]; !taken {
			r.gone[old.path] = struct{}{}
			r.from[e.path] = old
			return candidates[i+1:]
		}
	}
	return nil
}

// change says how two entries of a path differ, of which one may be nil; nil
// where that is told under another path.
func (r *renames) change(old, new *entry) *stint.FileChange {
	c := &stint.FileChange{Change: stint.FileChanged}
	switch {
	case new == nil:
		if _, renamed := r.gone[old.path]; renamed {
			return nil
		}
		c.Change = stint.FileRemoved
	case old == nil:
		c.Change = stint.FileAdded
		if was := r.from[new.path]; was != nil {
			old, c.Change = was, stint.FileRenamed
		}
	}
	if old != nil {
		from := old.public()
		c.Path, c.From = from.Path, &from
	}
	if new != nil {
		to := new.public()
		c.Path, c.To = to.Path, &to
	}
	return c
}
