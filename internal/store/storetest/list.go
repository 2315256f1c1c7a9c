package storetest

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/store"
)

var listCases = []testCase{
	{"a page has Limit items, the next one continues after it", pageEdges},
	{"a list is ordered by time, newest first", newestFirst},
	{"a prefix of IDs selects items of the organisation", idPrefixes},
}

// list describes a method of the port that returns a list in pages.
type list struct {
	name string
	// open prepares the list in an organisation and returns two functions. add stores an
	// item with the given creation time. page reads a page and returns the cursor of each
	// of its items.
	open func(o *tenant) (add func(at stint.Time) error, page func(store.Range) ([]store.Cursor, error))
}

var lists = []list{
	{"runs", func(o *tenant) (func(stint.Time) error, func(store.Range) ([]store.Cursor, error)) {
		add := func(at stint.Time) error {
			_, err := o.w.s.CreateRun(o.w.ctx, o.newRun(func(n *store.NewRun) { n.CreatedAt = at }), nil)
			return err
		}
		return add, positions(func(r store.Range) ([]stint.RunSummary, error) {
			return o.w.s.RunSummaries(o.w.ctx, o.org, store.RunFilter{}, r)
		}, func(s stint.RunSummary) store.Cursor { return store.Cursor{At: s.CreatedAt, ID: s.ID} })
	}},
	{"runs with one of two statuses", func(o *tenant) (func(stint.Time) error, func(store.Range) ([]store.Cursor, error)) {
		var count atomic.Int64
		add := func(at stint.Time) error {
			n := o.newRun(func(n *store.NewRun) { n.CreatedAt = at })
			_, err := o.w.s.CreateRun(o.w.ctx, n, nil)
			if err == nil && count.Add(1)%2 == 0 {
				_, err = o.w.s.Cancel(o.w.ctx, o.org, n.ID, at)
			}
			return err
		}
		either := store.RunFilter{Statuses: []stint.Status{stint.Pending, stint.Cancelled}}
		return add, positions(func(r store.Range) ([]stint.RunSummary, error) {
			return o.w.s.RunSummaries(o.w.ctx, o.org, either, r)
		}, func(s stint.RunSummary) store.Cursor { return store.Cursor{At: s.CreatedAt, ID: s.ID} })
	}},
	{"sessions", func(o *tenant) (func(stint.Time) error, func(store.Range) ([]store.Cursor, error)) {
		add := func(at stint.Time) error {
			_, err := o.w.s.CreateRun(o.w.ctx, o.newRun(func(n *store.NewRun) { n.CreatedAt = at }), nil)
			return err
		}
		return add, positions(func(r store.Range) ([]store.Session, error) { return o.w.s.Sessions(o.w.ctx, o.org, r) },
			func(s store.Session) store.Cursor { return store.Cursor{At: s.CreatedAt, ID: s.ID} })
	}},
	{"agents", func(o *tenant) (func(stint.Time) error, func(store.Range) ([]store.Cursor, error)) {
		add := func(at stint.Time) error {
			a, v := o.agentPair("agent-" + o.w.suffix())
			a.CreatedAt, v.CreatedAt = at, at
			return o.w.s.CreateAgent(o.w.ctx, a, v)
		}
		return add, positions(func(r store.Range) ([]store.Agent, error) { return o.w.s.Agents(o.w.ctx, o.org, r) },
			func(a store.Agent) store.Cursor { return store.Cursor{At: a.CreatedAt, ID: a.ID} })
	}},
	{"agent versions", func(o *tenant) (func(stint.Time) error, func(store.Range) ([]store.Cursor, error)) {
		add := func(at stint.Time) error {
			v := o.nextVersion(o.agent.ID, o.w.suffix())
			v.CreatedAt = at
			_, _, err := o.w.s.AddAgentVersion(o.w.ctx, o.org, v)
			return err
		}
		return add, positions(func(r store.Range) ([]store.AgentVersion, error) {
			return o.w.s.AgentVersions(o.w.ctx, o.org, o.agent.ID, r)
		}, func(v store.AgentVersion) store.Cursor { return store.Cursor{At: v.CreatedAt, ID: v.ID} })
	}},
	{"artifacts", trees(stint.Artifacts)},
	{"volumes", trees(stint.Volumes)},
	{"file set versions", func(o *tenant) (func(stint.Time) error, func(store.Range) ([]store.Cursor, error)) {
		tree := o.fileSet(stint.Volumes, "data-"+o.w.suffix())
		add := func(at stint.Time) error {
			c := o.commit(tree.ID, o.w.suffix())
			c.CreatedAt = at
			_, _, err := o.w.s.CommitVersion(o.w.ctx, c)
			return err
		}
		return add, positions(func(r store.Range) ([]store.FileSetVersion, error) {
			return o.w.s.FileSetVersions(o.w.ctx, o.org, tree.ID, r)
		}, func(v store.FileSetVersion) store.Cursor { return store.Cursor{At: v.CreatedAt, ID: v.ID} })
	}},
	{"tokens", func(o *tenant) (func(stint.Time) error, func(store.Range) ([]store.Cursor, error)) {
		add := func(at stint.Time) error {
			t := store.Token{OrgID: o.org, UserID: o.user, Token: stint.Token{
				ID: o.w.ids.New(stint.PrefixToken), Name: "t", Scopes: stint.Scopes, CreatedAt: at, ExpiresAt: later(at, time.Hour),
			}}
			t.Hash = []byte(digest(t.ID))[:32]
			return o.w.s.CreateToken(o.w.ctx, t)
		}
		return add, positions(func(r store.Range) ([]store.Token, error) { return o.w.s.Tokens(o.w.ctx, o.org, r) },
			func(t store.Token) store.Cursor { return store.Cursor{At: t.CreatedAt, ID: t.ID} })
	}},
}

func trees(kind stint.FileSetKind) func(o *tenant) (func(stint.Time) error, func(store.Range) ([]store.Cursor, error)) {
	return func(o *tenant) (func(stint.Time) error, func(store.Range) ([]store.Cursor, error)) {
		add := func(at stint.Time) error {
			t := o.fileSetOf(kind, "tree-"+o.w.suffix())
			t.CreatedAt = at
			return o.w.s.CreateFileSet(o.w.ctx, t)
		}
		return add, positions(func(r store.Range) ([]store.FileSet, error) { return o.w.s.FileSets(o.w.ctx, o.org, kind, r) },
			func(t store.FileSet) store.Cursor { return store.Cursor{At: t.CreatedAt, ID: t.ID} })
	}
}

func positions[T any](read func(store.Range) ([]T, error), at func(T) store.Cursor) func(store.Range) ([]store.Cursor, error) {
	return func(r store.Range) ([]store.Cursor, error) {
		items, err := read(r)
		out := make([]store.Cursor, len(items))
		for i, item := range items {
			out[i] = at(item)
		}
		return out, err
	}
}

// walk reads a list in pages of at most limit items until a page is empty, and returns the
// cursors of all items. It calls between before each page except the first.
func (w *world) walk(page func(store.Range) ([]store.Cursor, error), limit int, between func()) []store.Cursor {
	w.Helper()
	var all []store.Cursor
	for r := (store.Range{Limit: limit}); ; between() {
		items, err := page(r)
		w.must(err, "a page")
		if len(items) > limit {
			w.Fatalf("a page of at most %d has %d items", limit, len(items))
		}
		if len(items) == 0 {
			return all
		}
		all = append(all, items...)
		r.After = items[len(items)-1]
	}
}

func each(w *world, run func(w *world, l list)) {
	for i, l := range lists {
		w.real.(*testing.T).Run(l.name, func(t *testing.T) {
			own := w.with(t)
			own.home = own.tenant(fmt.Sprint("list-", i))
			run(own, l)
		})
	}
}

func pageEdges(w *world) {
	each(w, func(w *world, l list) {
		add, page := l.open(w.home)
		before := w.walk(page, 100, func() {})
		base := w.now()
		w.concurrently(10, func(k int) error {
			for i := k; i < 101-len(before); i += 10 {
				if err := add(later(base, time.Duration(i/3)*time.Millisecond)); err != nil {
					return err
				}
			}
			return nil
		})
		all, err := page(store.Range{Limit: 101})
		w.must(err, "a page of 101")
		w.diff("items on a page of 101", 101, len(all))
		for _, limit := range []int{1, 100, 101, 102} {
			first, err := page(store.Range{Limit: limit})
			w.must(err, "the first page")
			w.diff(fmt.Sprint("first page of ", limit), all[:min(limit, 101)], first)
			rest, err := page(store.Range{Limit: limit, After: first[len(first)-1]})
			w.must(err, "the second page")
			w.diff(fmt.Sprint("second page of ", limit), all[min(limit, 101):min(2*limit, 101)], rest)
		}
	})
}

// idPrefixes compares the items that a prefix selects with the items of the whole list that
// have this prefix, for every prefix of an ID.
func idPrefixes(w *world) {
	each(w, func(w *world, l list) {
		add, page := l.open(w.home)
		addOther, _ := l.open(w.tenant(l.name + "-other"))
		for i := range 9 {
			at := later(w.now(), time.Duration(i/2)*time.Millisecond)
			w.must(add(at), "add")
			w.must(addOther(at), "add")
		}
		all, err := page(store.Range{Limit: 100})
		w.must(err, "the whole list")
		id := all[4].ID
		for n := range len(id) + 1 {
			var want []store.Cursor
			for _, item := range all {
				if strings.HasPrefix(item.ID, id[:n]) {
					want = append(want, item)
				}
			}
			selected := func(r store.Range) ([]store.Cursor, error) {
				r.IDPrefix = id[:n]
				return page(r)
			}
			w.diff("items with the prefix "+id[:n], want, w.walk(selected, 2, func() {}))
		}
		none, err := page(store.Range{Limit: 2, IDPrefix: id + "0"})
		w.must(err, "a page")
		w.diff("items with a longer prefix", 0, len(none))
	})
}

func newestFirst(w *world) {
	each(w, func(w *world, l list) {
		add, page := l.open(w.home)
		base := later(w.now(), time.Hour)
		for _, ms := range []int{5, 1, 9, 3, 3, 7} {
			w.must(add(later(base, time.Duration(ms)*time.Millisecond)), "add")
		}
		items, err := page(store.Range{Limit: 6})
		w.must(err, "a page")
		var got []int64
		for _, item := range items {
			got = append(got, item.At.Sub(base.Time).Milliseconds())
		}
		w.diff("times", []int64{9, 7, 5, 3, 3, 1}, got)
	})
}

// randomPaging reads all pages of a list and adds items between the pages. The items' times
// are random and may be equal. Each item that existed before the first page was read must be
// returned exactly once, and each added item at most once.
func randomPaging(w *world) {
	names := 0
	rapid.Check(w.real, func(t *rapid.T) {
		w := w.with(t)
		names++
		w.home = w.tenant(fmt.Sprint("walk-", names))
		add, page := rapid.SampledFrom(lists).Draw(t, "list").open(w.home)
		base := w.now()
		times := rapid.Custom(func(t *rapid.T) stint.Time {
			return later(base, time.Duration(rapid.IntRange(0, 4).Draw(t, "ms"))*time.Millisecond)
		})
		for _, at := range rapid.SliceOfN(times, 0, 12).Draw(t, "existing") {
			w.must(add(at), "add")
		}
		existing, err := page(store.Range{Limit: 1000})
		w.must(err, "the whole list")
		seen := make(map[store.Cursor]int)
		added := 0
		for _, item := range w.walk(page, rapid.IntRange(1, 5).Draw(t, "limit"), func() {
			if added < 10 && rapid.Bool().Draw(t, "add") {
				added++
				w.must(add(times.Draw(t, "added")), "add")
			}
		}) {
			seen[item]++
		}
		for item, times := range seen {
			if times != 1 {
				t.Fatalf("%v was returned %d times", item, times)
			}
		}
		for _, item := range existing {
			if seen[item] != 1 {
				t.Fatalf("%v existed before the walk and was not returned", item)
			}
		}
	})
}
