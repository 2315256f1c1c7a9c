package storetest

import (
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/store"
)

var collectionCases = []testCase{
	{"Orgs lists every organisation", func(w *world) {
		other := w.tenant("other")
		orgs, err := w.s.Orgs(w.ctx)
		w.must(err, "Orgs")
		for _, org := range []string{w.home.org, other.org} {
			if !slices.Contains(orgs, org) {
				w.Errorf("%s is not in %q", org, orgs)
			}
		}
	}},
	{"epochs are counted for each organisation", func(w *world) {
		other := w.tenant("other")
		w.diff("first", int64(1), w.home.collect())
		w.diff("second", int64(2), w.home.collect())
		w.diff("of another", int64(1), other.collect())
		epoch, _, err := w.s.MarkedObjects(w.ctx, w.home.org)
		w.must(err, "MarkedObjects")
		w.diff("epoch", int64(2), epoch)
	}},
	{"the collection lease is exclusive", func(w *world) {
		lease := func(org, holder string, d time.Duration) bool {
			ok, err := w.s.LeaseCollection(w.ctx, org, holder, d)
			w.must(err, "LeaseCollection")
			return ok
		}
		w.diff("first", true, lease(w.home.org, "a", time.Hour))
		w.diff("another", false, lease(w.home.org, "b", time.Hour))
		w.diff("of another organisation", true, lease(w.tenant("other").org, "b", time.Hour))
		w.diff("extended", true, lease(w.home.org, "a", time.Hour))
		w.diff("epoch", int64(1), w.home.collect())
		w.diff("another, later", false, lease(w.home.org, "b", time.Hour))
		w.diff("given back", true, lease(w.home.org, "a", 0))
		w.diff("another, then", true, lease(w.home.org, "b", time.Hour))
		epoch, _, err := w.s.MarkedObjects(w.ctx, w.home.org)
		w.must(err, "MarkedObjects")
		w.diff("epoch, then", int64(1), epoch)
	}},
	{"a snapshot of another epoch cannot be referenced", func(w *world) {
		t := w.home.fileSet(stint.Volumes, "data")
		first := w.home.committed(w.home.commit(t.ID, "one"))
		w.home.collect()
		c := w.home.commit(t.ID, "two")
		_, _, err := w.s.CommitVersion(w.ctx, c)
		w.wantErr(err, store.ErrEpoch, "CommitVersion under epoch 0")
		w.diff("head", first, w.home.treeVersion(t.ID, "", 0))
		c.Epoch = 1
		w.diff("number under the current epoch", int64(2), w.home.committed(c).Number)
		c.Epoch = 2
		_, _, err = w.s.CommitVersion(w.ctx, c)
		w.wantErr(err, store.ErrEpoch, "CommitVersion under a future epoch")
	}},
	{"Finish requires the current epoch", func(w *world) {
		w.home.collect()
		c := w.home.start()
		late := w.outcome(stint.Completed, w.home.withVersion("out", "pages"), w.home.checkpoint(c.Run))
		_, err := w.s.Finish(w.ctx, c.Position, late)
		w.wantErr(err, store.ErrEpoch, "Finish under epoch 0")
		late.Version.Commit.Epoch = 1
		_, err = w.s.Finish(w.ctx, c.Position, late)
		w.wantErr(err, store.ErrEpoch, "Finish with a checkpoint of epoch 0")
		late.Checkpoint.Epoch = 1
		r := w.finish(c.Position, late)
		w.diff("status", stint.Completed, r.Status)
	}},
	{"referenced digests are live", func(w *world) {
		other := w.tenant("other")
		foreign := other.fileSet(stint.Volumes, "data")
		other.committed(other.commit(foreign.ID, "foreign"))
		t := w.home.fileSet(stint.Volumes, "data")
		w.home.committed(w.home.commit(t.ID, "one"))
		w.home.committed(w.home.commit(t.ID, "two"))
		gone := w.home.fileSet(stint.Volumes, "gone")
		w.home.committed(w.home.commit(gone.ID, "gone"))
		w.must(w.s.DeleteFileSet(w.ctx, w.home.org, stint.Volumes, gone.ID, w.now()), "DeleteFileSet")
		c := w.home.start()
		o := w.outcome(stint.Completed, w.home.withVersion("out", "pages"), w.home.checkpoint(c.Run))
		o.Checkpoint.HomeDigest, o.Checkpoint.WorkspaceDigest = digest("home"), digest("pages")
		w.finish(c.Position, o)
		w.home.create(func(n *store.NewRun) {
			n.Spec = json.RawMessage(`{"volumes":[{"digest":"` + digest("planned") + `"}]}`)
		})
		want := []string{digest("one"), digest("two"), digest("pages"), digest("home"), digest("planned")}
		slices.Sort(want)
		w.diff("live", want, w.home.live())
	}},
	{"the plan of a cancelled run is live until its state is saved", func(w *world) {
		plan := func(n *store.NewRun) { n.Spec = json.RawMessage(`{"workspace":"` + digest("planned") + `"}`) }
		waits := w.home.create(plan)
		w.cancel(w.home.org, waits.ID)
		w.diff("live digests of a pending run", []string(nil), w.home.live())
		c, lost := w.home.start(plan), w.home.start(plan)
		w.cancel(w.home.org, c.Run.ID)
		w.cancel(w.home.org, lost.Run.ID)
		w.diff("live", []string{digest("planned")}, w.home.live())
		w.lose(lost.Run.WorkerID)
		w.diff("live with one worker", []string{digest("planned")}, w.home.live())
		_, chk := w.home.saved(c.Run, "out", "x")
		chk.ArtifactName, chk.HomeDigest, chk.WorkspaceDigest = nil, "", digest("pages")
		_, err := w.s.AddCheckpoint(w.ctx, c.Position, nil, chk)
		w.must(err, "AddCheckpoint")
		w.diff("live with the checkpoint", []string{digest("pages")}, slices.DeleteFunc(w.home.live(), func(d string) bool { return d == "" }))
	}},
	{"a version of a deleted file set is live if a checkpoint references it", func(w *world) {
		c := w.home.start()
		o := w.outcome(stint.Completed, w.home.withVersion("out", "pages"), w.home.checkpoint(c.Run))
		o.Checkpoint.HomeDigest, o.Checkpoint.WorkspaceDigest = "", ""
		w.finish(c.Position, o)
		w.must(w.s.DeleteFileSet(w.ctx, w.home.org, stint.Artifacts, w.home.artifact("out").ID, w.now()), "DeleteFileSet")
		w.diff("live", []string{digest("pages")}, w.home.live())
	}},
	{"NamedSnapshots returns names", func(w *world) {
		t := w.home.fileSet(stint.Volumes, "data")
		one := w.home.committed(w.home.commit(t.ID, "one"))
		c := w.home.start()
		o := w.outcome(stint.Completed, w.home.withVersion("out", "pages"), w.home.checkpoint(c.Run))
		o.Checkpoint.HomeDigest, o.Checkpoint.WorkspaceDigest = "", digest("pages")
		r := w.finish(c.Position, o)
		var got []store.NamedSnapshot
		for n, err := range w.s.NamedSnapshots(w.ctx, w.home.org) {
			w.must(err, "NamedSnapshots")
			got = append(got, n)
		}
		w.diff("named", []store.NamedSnapshot{
			{Digest: digest("pages"), Name: "artifact out@" + *r.ArtifactVersion},
			{Digest: digest("one"), Name: "volume data@" + one.ID},
			{Digest: digest("pages"), Name: "workspace of " + *r.CheckpointID},
		}, got)
	}},
	{"marked objects stay marked until they are unmarked", func(w *world) {
		at := w.now()
		org := w.home.org
		w.home.collect()
		w.must(w.s.MarkObjects(w.ctx, org, 1, []string{"b", "a"}, at), "MarkObjects")
		w.must(w.s.MarkObjects(w.ctx, org, 2, []string{"a", "c"}, later(at, 1)), "MarkObjects")
		_, list, err := w.s.MarkedObjects(w.ctx, org)
		w.must(err, "MarkedObjects")
		w.diff("marked objects", []store.MarkedObject{{Key: "a", Epoch: 1, Since: at.UTC()}, {Key: "b", Epoch: 1, Since: at.UTC()}, {Key: "c", Epoch: 2, Since: at.UTC()}}, list)
		_, list, err = w.s.MarkedObjects(w.ctx, w.tenant("other").org)
		w.must(err, "MarkedObjects")
		w.diff("marked objects of another organisation", []store.MarkedObject(nil), list)
		w.must(w.s.UnmarkObjects(w.ctx, org, []string{"a", "c", "never"}), "UnmarkObjects")
		_, list, err = w.s.MarkedObjects(w.ctx, org)
		w.must(err, "MarkedObjects")
		w.diff("left", []store.MarkedObject{{Key: "b", Epoch: 1, Since: at.UTC()}}, list)
	}},
	{"commits and BeginCollection exclude each other", func(w *world) {
		t := w.home.fileSet(stint.Volumes, "data")
		named := make([]bool, 12)
		missed := make([]bool, len(named))
		w.concurrently(len(named)+1, func(i int) error {
			if i == len(named) {
				_, err := w.s.BeginCollection(w.ctx, w.home.org)
				live := w.home.live() // must include every version that was committed under epoch 0
				for j := range missed {
					missed[j] = !slices.Contains(live, digest(word(j)))
				}
				return err
			}
			_, _, err := w.s.CommitVersion(w.ctx, w.home.commit(t.ID, word(i)))
			named[i] = err == nil
			if errors.Is(err, store.ErrEpoch) {
				return nil
			}
			return err
		})
		for i := range named {
			if named[i] && missed[i] {
				w.Errorf("version %d was committed but is not live", i)
			}
		}
	}},
}

var retentionCases = []testCase{
	{"an unused version can be deleted", func(w *world) {
		t := w.home.fileSet(stint.Volumes, "data")
		one, two := w.home.committed(w.home.commit(t.ID, "one")), w.home.committed(w.home.commit(t.ID, "two"))
		w.wantErr(w.s.DeleteVersion(w.ctx, w.home.org, t.ID, two.ID), store.InUseError{Use: store.UseHead}, "DeleteVersion of the head")
		w.wantErr(w.s.DeleteVersion(w.ctx, w.tenant("other").org, t.ID, one.ID), store.ErrNotFound, "DeleteVersion by another organisation")
		w.must(w.s.KeepVersion(w.ctx, w.home.org, t.ID, one.ID, true, w.now()), "KeepVersion")
		w.diff("kept", true, w.home.treeVersion(t.ID, one.ID, 0).Kept)
		w.wantErr(w.s.DeleteVersion(w.ctx, w.home.org, t.ID, one.ID), store.InUseError{Use: store.UseKept}, "DeleteVersion of a kept version")
		w.must(w.s.KeepVersion(w.ctx, w.home.org, t.ID, one.ID, false, w.now()), "KeepVersion")
		w.must(w.s.DeleteVersion(w.ctx, w.home.org, t.ID, one.ID), "DeleteVersion")
		w.wantErr(w.s.DeleteVersion(w.ctx, w.home.org, t.ID, one.ID), store.ErrNotFound, "DeleteVersion again")
		w.wantErr(w.s.KeepVersion(w.ctx, w.home.org, t.ID, one.ID, true, w.now()), store.ErrNotFound, "KeepVersion of a deleted version")
		w.diff("next number", int64(3), w.home.committed(w.home.commit(t.ID, "three")).Number)
	}},
	{"a version that a checkpoint references is not deleted", func(w *world) {
		c := w.home.start()
		r := w.finish(c.Position, w.outcome(stint.Failed, w.home.withVersion("out", "pages"), w.home.checkpoint(c.Run)))
		w.wantErr(w.s.DeleteVersion(w.ctx, w.home.org, w.home.artifact("out").ID, *r.ArtifactVersion), store.InUseError{Use: store.UseCheckpoint}, "DeleteVersion")
	}},
	{"PruneVersions retains new, recent, head, and kept versions", func(w *world) {
		t := w.home.fileSet(stint.Volumes, "data")
		var versions []store.FileSetVersion
		for i := range 6 {
			versions = append(versions, w.home.committed(w.home.commit(t.ID, word(i))))
		}
		w.must(w.s.KeepVersion(w.ctx, w.home.org, t.ID, versions[0].ID, true, w.now()), "KeepVersion")
		w.diff("removed without a rule", int64(0), w.home.prune(store.Retention{}))
		w.diff("removed by age and number", int64(1), w.home.prune(store.Retention{Last: 2, Since: versions[2].CreatedAt}))
		w.diff("left", []int64{6, 5, 4, 3, 1}, w.home.numbers(t.ID))
		w.diff("removed by number", int64(2), w.home.prune(store.Retention{Last: 2}))
		w.diff("left", []int64{6, 5, 1}, w.home.numbers(t.ID))
		w.diff("removed by age", int64(1), w.home.prune(store.Retention{Since: later(w.now(), 1e9)}))
		w.diff("left", []int64{6, 1}, w.home.numbers(t.ID))
	}},
	{"PruneVersions removes deleted file sets", func(w *world) {
		c := w.home.start()
		w.finish(c.Position, w.outcome(stint.Completed, w.home.withVersion("out", "pages"), w.home.checkpoint(c.Run)))
		out := w.home.artifact("out")
		next := w.home.committed(w.home.commit(out.ID, "more"))
		w.must(w.s.DeleteFileSet(w.ctx, w.home.org, stint.Artifacts, out.ID, w.now()), "DeleteFileSet")
		w.diff("removed", int64(1), w.home.prune(store.Retention{}))
		_, err := w.s.FileSetVersion(w.ctx, w.home.org, out.ID, next.ID, 0)
		w.wantErr(err, store.ErrNotFound, "the version that no checkpoint references")
		w.diff("live", []string{digest("pages")}, slices.DeleteFunc(w.home.live(), func(d string) bool { return d != digest("pages") }))
	}},
	{"StorageUsage counts stored versions", func(w *world) {
		w.tenant("other").fileSet(stint.Volumes, "data")
		t := w.home.fileSet(stint.Volumes, "data")
		a, b := w.home.commit(t.ID, "one"), w.home.commit(t.ID, "second")
		w.home.committed(a)
		w.home.committed(b)
		w.home.fileSet(stint.Artifacts, "out")
		got, err := w.s.StorageUsage(w.ctx, w.home.org)
		w.must(err, "StorageUsage")
		w.diff("usage", store.StorageUsage{Artifacts: 1, Volumes: 1, Versions: 2, Bytes: a.Size + b.Size}, got)
	}},
}

func word(i int) string { return string(rune('a' + i)) }

func (o *tenant) collect() int64 {
	o.w.Helper()
	epoch, err := o.w.s.BeginCollection(o.w.ctx, o.org)
	o.w.must(err, "BeginCollection")
	return epoch
}

// live returns the organisation's live digests, sorted and without duplicates.
func (o *tenant) live() []string {
	o.w.Helper()
	var list []string
	for d, err := range o.w.s.LiveDigests(o.w.ctx, o.org) {
		o.w.must(err, "LiveDigests")
		list = append(list, d)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

func (o *tenant) prune(r store.Retention) int64 {
	o.w.Helper()
	n, err := o.w.s.PruneVersions(o.w.ctx, r)
	o.w.must(err, "PruneVersions")
	return n
}

// numbers returns the numbers of a file set's versions, newest first.
func (o *tenant) numbers(tree string) (list []int64) {
	o.w.Helper()
	versions, err := o.w.s.FileSetVersions(o.w.ctx, o.org, tree, store.Range{Limit: 100})
	o.w.must(err, "FileSetVersions")
	for _, v := range versions {
		list = append(list, v.Number)
	}
	return list
}
