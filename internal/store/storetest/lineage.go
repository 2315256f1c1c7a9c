package storetest

import (
	"errors"
	"fmt"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/store"
)

var lineageCases = []testCase{
	{"a pushed version is a child of the head", func(w *world) {
		t := w.home.fileSet(stint.Volumes, "data")
		one := w.home.committed(w.home.commit(t.ID, "one"))
		two := w.home.committed(w.home.commit(t.ID, "two"))
		w.diff("first", []any{(*string)(nil), stint.VersionOrigin{Type: stint.OriginPush}}, []any{one.ParentVersionID, one.Origin})
		w.diff("second", &one.ID, two.ParentVersionID)
		w.home.promote(t.ID, one.ID)
		three := w.home.committed(w.home.commit(t.ID, "three"))
		w.diff("after a promotion", &one.ID, three.ParentVersionID)
		list, err := w.s.FileSetVersions(w.ctx, w.home.org, t.ID, store.Range{Limit: 10})
		w.must(err, "FileSetVersions")
		w.diff("list", []store.FileSetVersion{three, two, one}, list)
	}},
	{"PromoteVersion makes a version the head", func(w *world) {
		for _, kind := range []stint.FileSetKind{stint.Artifacts, stint.Volumes} {
			t := w.home.fileSet(kind, "data")
			one, two := w.home.committed(w.home.commit(t.ID, "one")), w.home.committed(w.home.commit(t.ID, "second"))
			w.diff("promoted", one, w.home.promote(t.ID, one.ID))
			w.diff("head", one, w.home.treeVersion(t.ID, "", 0))
			got, err := w.s.FileSet(w.ctx, w.home.org, kind, t.ID)
			w.must(err, "FileSet")
			w.diff("size", one.Size, got.Size)
			w.diff("changed after the last version", true, got.UpdatedAt.After(two.CreatedAt.Time))
			w.home.promote(t.ID, one.ID)
			again, err := w.s.FileSet(w.ctx, w.home.org, kind, t.ID)
			w.must(err, "FileSet")
			w.diff("promoting the head changes nothing", got, again)
			w.must(w.s.DeleteVersion(w.ctx, w.home.org, t.ID, two.ID), "DeleteVersion of the previous head")
			w.wantErr(w.s.DeleteVersion(w.ctx, w.home.org, t.ID, one.ID), store.InUseError{Use: store.UseHead}, "DeleteVersion of the head")
		}
	}},
	{"PromoteVersion checks the version and the head", func(w *world) {
		t := w.home.fileSet(stint.Artifacts, "out")
		aside := w.home.commit(t.ID, "aside")
		aside.KeepHead = true
		one := w.home.committed(aside)
		promote := func(org, id string, head *string) error {
			_, err := w.s.PromoteVersion(w.ctx, org, t.ID, id, head, w.now())
			return err
		}
		w.wantErr(promote(w.tenant("other").org, one.ID, nil), store.ErrNotFound, "another organisation")
		w.wantErr(promote(w.home.org, "v1_aaaaaaaaaaaaaaaaaaaa", nil), store.ErrNotFound, "an unknown version")
		conflict, ok := errors.AsType[*store.ConflictError](promote(w.home.org, one.ID, &one.ID))
		w.diff("conflict without a head", []any{true, ""}, []any{ok, conflict.Head})
		w.must(promote(w.home.org, one.ID, new("")), "PromoteVersion")
		two := w.home.committed(w.home.commit(t.ID, "two"))
		conflict, ok = errors.AsType[*store.ConflictError](promote(w.home.org, one.ID, &one.ID))
		w.diff("conflict", []any{true, two.ID}, []any{ok, conflict.Head})
		w.must(w.s.DeleteVersion(w.ctx, w.home.org, t.ID, one.ID), "DeleteVersion")
		w.wantErr(promote(w.home.org, one.ID, nil), store.ErrNotFound, "a removed version")
		w.must(w.s.DeleteFileSet(w.ctx, w.home.org, stint.Artifacts, t.ID, w.now()), "DeleteFileSet")
		w.wantErr(promote(w.home.org, two.ID, nil), store.ErrNotFound, "a deleted artifact")
	}},
	{"a run that changes nothing creates no version and does not move the head", func(w *world) {
		tree := w.home.fileSet(stint.Artifacts, "out")
		one := w.home.committed(w.home.commit(tree.ID, "one"))
		two := w.home.committed(w.home.commit(tree.ID, "two"))
		for _, status := range []stint.Status{stint.Completed, stint.Failed} {
			for _, base := range []store.FileSetVersion{one, two} {
				c := w.home.start()
				word := map[string]string{one.ID: "one", two.ID: "two"}[base.ID]
				r := w.finish(c.Position, w.outcome(status, w.home.withVersion("out", word), from(base.ID), w.home.checkpoint(c.Run)))
				w.diff("version of the run", &base.ID, r.ArtifactVersion)
				w.diff("version in the checkpoint", &base.ID, w.home.readCheckpoint(*r.CheckpointID).ArtifactVersion)
				w.diff("move", (*stint.HeadMove)(nil), r.HeadMovedFrom)
				w.diff("head", &two.ID, w.home.artifact("out").CurrentVersionID)
				w.home.checkRun(c.Run.ID)
			}
		}
		w.diff("versions", []int64{2, 1}, w.home.numbers(tree.ID))
	}},
	{"the content of the head is a new version if the run started from another one", func(w *world) {
		tree := w.home.fileSet(stint.Artifacts, "out")
		one := w.home.committed(w.home.commit(tree.ID, "one"))
		two := w.home.committed(w.home.commit(tree.ID, "two"))
		r := w.home.complete("two", one.ID)
		w.diff("move", &stint.HeadMove{VersionID: two.ID}, r.HeadMovedFrom)
		w.diff("version", int64(3), w.home.treeVersion(tree.ID, "", 0).Number)
	}},
	{"Finish records the parent and reports a head of another line", func(w *world) {
		first := w.home.complete("one", "")
		w.diff("the first version replaces none", (*stint.HeadMove)(nil), first.HeadMovedFrom)
		second := w.home.complete("two", *first.ArtifactVersion)
		w.diff("the head is the parent", (*stint.HeadMove)(nil), second.HeadMovedFrom)
		fork := w.home.complete("three", *first.ArtifactVersion)
		w.diff("the head is not an ancestor", &stint.HeadMove{VersionID: *second.ArtifactVersion, SessionID: &second.SessionID}, fork.HeadMovedFrom)
		back := w.home.complete("four", *second.ArtifactVersion)
		w.diff("the fork is not an ancestor", &stint.HeadMove{VersionID: *fork.ArtifactVersion, SessionID: &fork.SessionID}, back.HeadMovedFrom)
		tree := w.home.artifact("out")
		aside := w.outcome(stint.Failed, w.home.withVersion("out", "aside"), from(*back.ArtifactVersion))
		started := w.home.start()
		aside.Version.Commit.CreatedBy = "run:" + started.Run.ID
		failed := w.finish(started.Position, aside)
		w.diff("a failed run", (*stint.HeadMove)(nil), failed.HeadMovedFrom)
		next := w.home.complete("five", *failed.ArtifactVersion)
		w.diff("the head is the parent's parent", (*stint.HeadMove)(nil), next.HeadMovedFrom)
		for run, parent := range map[*store.Run]store.Run{&second: first, &fork: first, &back: second, &failed: back, &next: failed} {
			v := w.home.treeVersion(tree.ID, *run.ArtifactVersion, 0)
			w.diff("parent of "+v.ID, parent.ArtifactVersion, v.ParentVersionID)
			w.diff("session of "+v.ID, &run.SessionID, v.Origin.SessionID)
			w.diff("run of "+v.ID, &run.ID, v.Origin.RunID)
		}
		nothing := w.home.complete("six", "")
		w.diff("a version without a parent", next.ArtifactVersion, &nothing.HeadMovedFrom.VersionID)
		pushed := w.home.committed(w.home.commit(tree.ID, "seven"))
		over := w.home.complete("eight", *next.ArtifactVersion)
		w.diff("a pushed head", &stint.HeadMove{VersionID: pushed.ID}, over.HeadMovedFrom)
	}},
	{"removed versions keep their place", func(w *world) {
		tree := w.home.fileSet(stint.Artifacts, "out")
		var list []store.FileSetVersion
		for i := range 4 {
			list = append(list, w.home.committed(w.home.commit(tree.ID, word(i))))
		}
		for _, v := range list[:2] {
			w.must(w.s.DeleteVersion(w.ctx, w.home.org, tree.ID, v.ID), "DeleteVersion")
		}
		w.diff("parent of the oldest that is left", &list[1].ID, w.home.treeVersion(tree.ID, list[2].ID, 0).ParentVersionID)
		fork := w.home.complete("fork", list[1].ID)
		w.diff("parent", &list[1].ID, w.home.treeVersion(tree.ID, *fork.ArtifactVersion, 0).ParentVersionID)
		w.diff("move", &stint.HeadMove{VersionID: list[3].ID}, fork.HeadMovedFrom)
		same := w.home.complete(word(0), list[0].ID)
		w.diff("number of unchanged content that was removed", int64(6), w.home.treeVersion(tree.ID, *same.ArtifactVersion, 0).Number)
		w.diff("head", fork.ArtifactVersion, w.home.artifact("out").CurrentVersionID)
		w.diff("no move", (*stint.HeadMove)(nil), same.HeadMovedFrom)
		w.diff("removed", int64(2), w.home.prune(store.Retention{Last: 1})) // v3 and v4; a checkpoint references v5
		next := w.home.complete("next", list[3].ID)
		w.diff("move after pruning", fork.ArtifactVersion, &next.HeadMovedFrom.VersionID)
	}},
	{"a version of a deleted artifact is not a parent", func(w *world) {
		old := w.home.complete("one", "")
		w.must(w.s.DeleteFileSet(w.ctx, w.home.org, stint.Artifacts, w.home.artifact("out").ID, w.now()), "DeleteFileSet")
		r := w.home.complete("one", *old.ArtifactVersion)
		v := w.home.treeVersion(w.home.artifact("out").ID, *r.ArtifactVersion, 0)
		w.diff("version", []any{int64(1), (*string)(nil)}, []any{v.Number, v.ParentVersionID})
	}},
	{"concurrent runs from one version replace each other in order", func(w *world) {
		base := w.home.complete("base", "")
		w.home.createMany(12)
		claims := w.claim(w.worker(), 12)
		replaced := make([]string, len(claims))
		w.concurrently(len(claims), func(i int) error {
			r, err := w.s.Finish(w.ctx, claims[i].Position, w.outcome(stint.Completed, w.home.withVersion("out", fmt.Sprint(i)), from(*base.ArtifactVersion)))
			if err == nil && r.HeadMovedFrom != nil {
				replaced[i] = r.HeadMovedFrom.VersionID
			}
			return err
		})
		tree := w.home.artifact("out")
		w.diff("different heads, or none for the first", len(claims), len(set(replaced)))
		for n := int64(2); n <= int64(len(claims))+1; n++ {
			w.diff("parent", base.ArtifactVersion, w.home.treeVersion(tree.ID, "", n).ParentVersionID)
		}
	}},
	{"runs, promotions, and removals at the same time keep one history", func(w *world) {
		base := w.home.complete("base", "")
		tree := w.home.artifact("out")
		for round := range 4 {
			pushed := w.home.committed(w.home.commit(tree.ID, fmt.Sprint("push", round)))
			w.home.createMany(4)
			claims := w.claim(w.worker(), 4)
			w.concurrently(len(claims)+2, func(i int) error {
				switch i - len(claims) {
				case 0:
					_, err := w.s.PromoteVersion(w.ctx, w.home.org, tree.ID, *base.ArtifactVersion, nil, w.now())
					return err
				case 1:
					if err := w.s.DeleteVersion(w.ctx, w.home.org, tree.ID, pushed.ID); !errors.Is(err, store.ErrInUse) {
						return err
					}
					return nil
				}
				_, err := w.s.Finish(w.ctx, claims[i].Position, w.outcome(stint.Completed, w.home.withVersion("out", fmt.Sprint(round, i)), from(pushed.ID)))
				return err
			})
			for _, c := range claims {
				v := w.home.treeVersion(tree.ID, *w.home.run(c.Run.ID).ArtifactVersion, 0)
				w.diff("parent", &pushed.ID, v.ParentVersionID)
			}
		}
	}},
}

// complete runs a run in a new session that starts from the version with the ID base (none
// if it is empty) and makes a version of the artifact out. It returns the completed run.
func (o *tenant) complete(content, base string, changes ...func(*store.NewRun)) store.Run {
	o.w.Helper()
	c := o.start(changes...)
	out := o.w.outcome(stint.Completed, o.withVersion("out", content), from(base), o.checkpoint(c.Run))
	out.Version.Commit.CreatedBy = "run:" + c.Run.ID
	r := o.w.finish(c.Position, out)
	o.checkRun(r.ID)
	return r
}

func (o *tenant) promote(set, id string) store.FileSetVersion {
	o.w.Helper()
	v, err := o.w.s.PromoteVersion(o.w.ctx, o.org, set, id, nil, o.w.now())
	o.w.must(err, "PromoteVersion")
	return v
}
