package storetest

import (
	"errors"
	"fmt"
	"maps"

	"pgregory.net/rapid"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/store"
)

var metadataCases = []testCase{
	{"changes set, replace, remove, and keep members", changeMetadata},
	{"the metadata of an ended run can be changed", func(w *world) {
		c := w.home.start()
		w.finish(c.Position, w.outcome(stint.Completed))
		before := w.home.run(c.Run.ID)
		events := w.events(c.Run.ID)
		got := w.change(before, map[string]*string{"state": ptr("reviewed")})
		before.Metadata = map[string]string{"state": "reviewed"}
		w.diff("returned run", before, got)
		w.diff("events", events, w.events(c.Run.ID))
	}},
	{"the metadata of a running run can be changed", func(w *world) {
		c := w.home.start()
		w.change(c.Run, map[string]*string{"k": ptr("v")})
		w.finish(w.append(c.Position, w.batch("one")), w.outcome(stint.Completed))
		w.diff("metadata", map[string]string{"k": "v"}, w.home.run(c.Run.ID).Metadata)
	}},
	{"a run has at most MaxMetadata members", func(w *world) {
		full := map[string]*string{}
		for i := range stint.MaxMetadata {
			full[fmt.Sprint("k", i)] = ptr("v")
		}
		run := w.home.run(w.home.create(metadata("first", "v")).ID)
		_, err := w.s.ChangeMetadata(w.ctx, w.home.org, run.ID, full)
		if e, ok := errors.AsType[*stint.Error](err); !ok || e.Param != "metadata" {
			w.Errorf("ChangeMetadata returned %v", err)
		}
		w.diff("metadata after the error", run.Metadata, w.home.run(run.ID).Metadata)
		full["first"] = nil
		w.diff("members", stint.MaxMetadata, len(w.change(run, full).Metadata))
	}},
	{"concurrent changes are not lost", func(w *world) {
		run := w.home.create(metadata("k", "v"))
		w.concurrently(8, func(k int) error {
			_, err := w.s.ChangeMetadata(w.ctx, w.home.org, run.ID, map[string]*string{fmt.Sprint("k", k): ptr("v")})
			return err
		})
		w.diff("members", 9, len(w.home.run(run.ID).Metadata))
	}},
	{"a filter finds only stored pairs", func(w *world) {
		for name, pairs := range map[string][]string{
			"a value that ends with a comma": {"a", "b,", "k", "v"},
			"a key that is a colon":          {":", "x", "k", "v"},
			"a value with a whole pair":      {"a", `,"k":"v"`},
			"a value that is JSON":           {"a", `{"k":"v"}`},
			"a value with an escaped pair":   {"a", `\",\"k\":\"v`},
			"a key with a pair":              {`k":"v`, "x"},
			"a control character":            {"k", "v\x00"},
			"an escaped control character":   {"k", `v\u0000`},
			"a longer control character":     {"k", "v\x010"},
			"a longer key":                   {"kk", "v"},
			"a longer value":                 {"k", "vv"},
			"only empty text":                {"k", ""},
			"other signs":                    {"k", "v<>&\u2028\uFFFD\"'\\%_?"},
		} {
			w.create(name, pairs)
		}
		w.create("the pair", []string{"k", "v"})
		w.home.create()
		w.diff("runs with k = v", 3, w.count(map[string]string{"k": "v"}))
		w.diff("runs with k = v and a key that is a colon", 1, w.count(map[string]string{"k": "v", ":": "x"}))
		w.diff("runs with k = x", 0, w.count(map[string]string{"k": "x"}))
		w.diff("runs with a key that is a colon and v", 0, w.count(map[string]string{":": "v"}))
	}},
	{"a filter finds the same runs as a comparison in memory", randomMetadata},
}

func changeMetadata(w *world) {
	run := w.home.run(w.home.create(metadata("keep", "1", "replace", "2", "remove", "3")).ID)
	other := w.home.run(w.home.create(metadata("keep", "1")).ID)
	got := w.change(run, map[string]*string{"replace": ptr("4"), "remove": nil, "missing": nil, "add": ptr("5")})
	want := map[string]string{"keep": "1", "replace": "4", "add": "5"}
	run.Metadata = want
	w.diff("returned run", run, got)
	w.diff("stored run", run, w.home.run(run.ID))
	read, err := w.s.Metadata(w.ctx, w.home.org, run.ID)
	w.must(err, "Metadata")
	w.diff("metadata", want, read)
	w.diff("without changes", run, w.change(run, nil))
	w.diff("another run", other, w.home.run(other.ID))
	w.diff("runs with the new value", 1, w.count(map[string]string{"replace": "4", "add": "5"}))
	w.diff("runs with the old value", 0, w.count(map[string]string{"replace": "2"}))
	bare := w.home.run(w.home.create().ID)
	w.diff("metadata of a run without any", map[string]string{"k": "v"}, w.change(bare, map[string]*string{"k": ptr("v")}).Metadata)
	_, err = w.s.ChangeMetadata(w.ctx, w.home.org, "run_none", nil)
	w.wantErr(err, store.ErrNotFound, "ChangeMetadata of an unknown run")
	_, err = w.s.Metadata(w.ctx, w.home.org, "run_none")
	w.wantErr(err, store.ErrNotFound, "Metadata of an unknown run")
}

func (w *world) change(r store.Run, changes map[string]*string) store.Run {
	w.Helper()
	got, err := w.s.ChangeMetadata(w.ctx, r.OrgID, r.ID, changes)
	w.must(err, "ChangeMetadata")
	return got
}

// create creates a run with these keys and values, and checks that filters by each pair,
// and by all pairs, find it.
func (w *world) create(name string, pairs []string) {
	w.Helper()
	n := w.home.create(metadata(pairs...))
	w.diff("filter by "+name, true, w.finds(n.Metadata, n.ID))
	for key, value := range n.Metadata {
		w.diff("filter by one pair of "+name, true, w.finds(map[string]string{key: value}, n.ID))
	}
}

func (w *world) found(pairs map[string]string) []stint.RunSummary {
	w.Helper()
	list, err := w.s.RunSummaries(w.ctx, w.home.org, store.RunFilter{Metadata: pairs}, store.Range{Limit: 1000})
	w.must(err, "RunSummaries")
	return list
}

func (w *world) count(pairs map[string]string) int {
	w.Helper()
	return len(w.found(pairs))
}

func (w *world) finds(pairs map[string]string, id string) bool {
	w.Helper()
	for _, r := range w.found(pairs) {
		if r.ID == id {
			return true
		}
	}
	return false
}

func randomMetadata(w *world) {
	text := rapid.StringOfN(rapid.SampledFrom([]rune("ab\",:{}\\0\x00\x01u")), 0, 6, -1)
	pairs := rapid.MapOfN(text, text, 0, 3)
	names := 0
	rapid.Check(w.real, func(t *rapid.T) {
		w := w.with(t)
		names++
		w.home = w.tenant(fmt.Sprint("labels-", names))
		var all []map[string]string
		for range rapid.IntRange(1, 4).Draw(t, "runs") {
			m := pairs.Draw(t, "metadata")
			w.home.create(func(n *store.NewRun) { n.Metadata = maps.Clone(m) })
			all = append(all, m)
		}
		filter := pairs.Draw(t, "filter")
		if rapid.Bool().Draw(t, "stored") {
			filter = rapid.SampledFrom(all).Draw(t, "stored metadata")
		}
		want := 0
		for _, m := range all {
			if containsPairs(m, filter) {
				want++
			}
		}
		if got := w.count(filter); got != want {
			t.Fatalf("%d runs have %q, want %d of %q", got, filter, want, all)
		}
	})
}

func containsPairs(m, pairs map[string]string) bool {
	for key, value := range pairs {
		if got, ok := m[key]; !ok || got != value {
			return false
		}
	}
	return true
}
