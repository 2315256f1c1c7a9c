package storetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/store"
)

var fileSetCases = []testCase{
	{"CreateFileSet stores an empty file set", func(w *world) {
		for _, kind := range []stint.FileSetKind{stint.Artifacts, stint.Volumes} {
			want := w.home.fileSet(kind, "data")
			got, err := w.s.FileSet(w.ctx, w.home.org, kind, want.ID)
			w.must(err, "FileSet")
			w.diff("tree", want, got)
			got, err = w.s.FileSetByName(w.ctx, w.home.org, kind, "data")
			w.must(err, "FileSetByName")
			w.diff("tree by name", want, got)
			_, err = w.s.FileSetVersion(w.ctx, w.home.org, want.ID, "", 0)
			w.wantErr(err, store.ErrNotFound, "the head of an empty tree")
		}
	}},
	{"an artifact is not found as a volume", func(w *world) {
		v := w.home.fileSet(stint.Volumes, "data")
		_, err := w.s.FileSet(w.ctx, w.home.org, stint.Artifacts, v.ID)
		w.wantErr(err, store.ErrNotFound, "FileSet")
		_, err = w.s.FileSetByName(w.ctx, w.home.org, stint.Artifacts, "data")
		w.wantErr(err, store.ErrNotFound, "FileSetByName")
		w.wantErr(w.s.DeleteFileSet(w.ctx, w.home.org, stint.Artifacts, v.ID, w.now()), store.ErrNotFound, "DeleteFileSet")
		list, err := w.s.FileSets(w.ctx, w.home.org, stint.Artifacts, store.Range{Limit: 10})
		w.must(err, "FileSets")
		w.diff("artifacts", []store.FileSet(nil), list)
	}},
	{"names are unique in an organisation and kind", func(w *world) {
		w.home.fileSet(stint.Volumes, "data")
		w.home.fileSet(stint.Artifacts, "data")
		w.tenant("other").fileSet(stint.Volumes, "data")
		w.wantErr(w.s.CreateFileSet(w.ctx, w.home.fileSetOf(stint.Volumes, "data")), store.ErrExists, "CreateFileSet of a taken name")
	}},
	{"concurrent creation of one name succeeds once", func(w *world) {
		won := make([]bool, 16)
		w.concurrently(len(won), func(i int) error {
			err := w.s.CreateFileSet(w.ctx, w.home.fileSetOf(stint.Artifacts, "out"))
			won[i] = err == nil
			if errors.Is(err, store.ErrExists) {
				return nil
			}
			return err
		})
		w.diff("winners", 1, count(won))
	}},
	{"CommitVersion numbers the version and moves the head", func(w *world) {
		for _, kind := range []stint.FileSetKind{stint.Artifacts, stint.Volumes} {
			t := w.home.fileSet(kind, "data")
			first, second := w.home.commit(t.ID, "one"), w.home.commit(t.ID, "second")
			one, two := w.home.committed(first), w.home.committed(second)
			w.diff("first", versionOf(kind, first, 1, nil), one)
			w.diff("second", versionOf(kind, second, 2, &one), two)
			got, err := w.s.FileSet(w.ctx, w.home.org, kind, t.ID)
			w.must(err, "FileSet")
			t.CurrentVersionID, t.Size, t.FileCount, t.UpdatedAt = &two.ID, second.Size, second.FileCount, second.CreatedAt
			w.diff("tree with its head", t, got)
			w.diff("by identifier", one, w.home.treeVersion(t.ID, one.ID, 0))
			w.diff("by number", one, w.home.treeVersion(t.ID, "", 1))
			w.diff("the identifier rules", one, w.home.treeVersion(t.ID, one.ID, 2))
			w.diff("the head", two, w.home.treeVersion(t.ID, "", 0))
		}
	}},
	{"an unknown version is not found", func(w *world) {
		a, b := w.home.fileSet(stint.Volumes, "a"), w.home.fileSet(stint.Volumes, "b")
		w.home.committed(w.home.commit(a.ID, "a"))
		other := w.home.committed(w.home.commit(b.ID, "b"))
		_, err := w.s.FileSetVersion(w.ctx, w.home.org, a.ID, other.ID, 0)
		w.wantErr(err, store.ErrNotFound, "another tree's version")
		_, err = w.s.FileSetVersion(w.ctx, w.home.org, a.ID, "", 2)
		w.wantErr(err, store.ErrNotFound, "the next number")
		_, _, err = w.s.CommitVersion(w.ctx, w.home.commit(w.ids.New(stint.PrefixVolume), "x"))
		w.wantErr(err, store.ErrNotFound, "a commit to an unknown tree")
	}},
	{"content equal to the head is not added", func(w *world) {
		t := w.home.fileSet(stint.Volumes, "data")
		one := w.home.committed(w.home.commit(t.ID, "one"))
		head, added, err := w.s.CommitVersion(w.ctx, w.home.commit(t.ID, "one"))
		w.must(err, "CommitVersion")
		w.diff("added", false, added)
		w.diff("head", one, head)
		w.home.committed(w.home.commit(t.ID, "two"))
		again := w.home.committed(w.home.commit(t.ID, "one"))
		w.diff("number of content that was the head before", int64(3), again.Number)
	}},
	{"CommitVersion with another IfHead returns ConflictError", func(w *world) {
		t := w.home.fileSet(stint.Volumes, "data")
		one := w.home.commit(t.ID, "one")
		one.IfHead = new("v1_aaaaaaaaaaaaaaaaaaaa")
		w.home.wantConflict(one, "")
		one.IfHead = new("")
		first := w.home.committed(one)
		two := w.home.commit(t.ID, "two")
		two.IfHead = new("")
		w.home.wantConflict(two, first.ID)
		same := w.home.commit(t.ID, "one")
		same.IfHead = new("v9_aaaaaaaaaaaaaaaaaaaa")
		w.home.wantConflict(same, first.ID)
		two.IfHead = &first.ID
		w.diff("number", int64(2), w.home.committed(two).Number)
	}},
	{"concurrent commits with the same IfHead succeed once", func(w *world) {
		t := w.home.fileSet(stint.Volumes, "data")
		first := w.home.committed(w.home.commit(t.ID, "one"))
		won := make([]bool, 16)
		w.concurrently(len(won), func(i int) error {
			c := w.home.commit(t.ID, fmt.Sprint("next", i))
			c.IfHead = &first.ID
			_, _, err := w.s.CommitVersion(w.ctx, c)
			won[i] = err == nil
			if _, ok := errors.AsType[*store.ConflictError](err); ok {
				return nil
			}
			return err
		})
		w.diff("winners", 1, count(won))
	}},
	{"concurrent commits have numbers without gaps", func(w *world) {
		t := w.home.fileSet(stint.Volumes, "data")
		numbers := make([]int64, 20)
		w.concurrently(len(numbers), func(i int) error {
			v, _, err := w.s.CommitVersion(w.ctx, w.home.commit(t.ID, fmt.Sprint(i)))
			numbers[i] = v.Number
			return err
		})
		slices.Sort(numbers)
		for i, n := range numbers {
			w.diff("number", int64(i+1), n)
		}
	}},
	{"KeepHead stores the version without moving the head", func(w *world) {
		t := w.home.fileSet(stint.Volumes, "data")
		aside := w.home.commit(t.ID, "aside")
		aside.KeepHead = true
		w.home.committed(aside)
		got, err := w.s.FileSet(w.ctx, w.home.org, stint.Volumes, t.ID)
		w.must(err, "FileSet")
		w.diff("head of the empty tree", (*string)(nil), got.CurrentVersionID)
		two := w.home.committed(w.home.commit(t.ID, "second"))
		aside = w.home.commit(t.ID, "another")
		aside.KeepHead = true
		three := w.home.committed(aside)
		w.diff("numbers", []int64{2, 3}, []int64{two.Number, three.Number})
		got, err = w.s.FileSet(w.ctx, w.home.org, stint.Volumes, t.ID)
		w.must(err, "FileSet")
		w.diff("head", &two.ID, got.CurrentVersionID)
		w.diff("size of the head", two.Size, got.Size)
		w.diff("version of the head", two, w.home.treeVersion(t.ID, "", 0))
		w.diff("the version aside", three, w.home.treeVersion(t.ID, three.ID, 0))
		list, err := w.s.FileSetVersions(w.ctx, w.home.org, t.ID, store.Range{Limit: 10})
		w.must(err, "FileSetVersions")
		w.diff("versions, newest first", []int64{3, 2, 1}, []int64{list[0].Number, list[1].Number, list[2].Number})
	}},
	{"DeleteFileSet hides versions and frees the name", func(w *world) {
		t := w.home.fileSet(stint.Volumes, "data")
		one := w.home.committed(w.home.commit(t.ID, "one"))
		w.must(w.s.DeleteFileSet(w.ctx, w.home.org, stint.Volumes, t.ID, w.now()), "DeleteFileSet")
		w.wantErr(w.s.DeleteFileSet(w.ctx, w.home.org, stint.Volumes, t.ID, w.now()), store.ErrNotFound, "DeleteFileSet again")
		_, err := w.s.FileSet(w.ctx, w.home.org, stint.Volumes, t.ID)
		w.wantErr(err, store.ErrNotFound, "FileSet")
		_, err = w.s.FileSetVersion(w.ctx, w.home.org, t.ID, one.ID, 0)
		w.wantErr(err, store.ErrNotFound, "FileSetVersion")
		_, _, err = w.s.CommitVersion(w.ctx, w.home.commit(t.ID, "two"))
		w.wantErr(err, store.ErrNotFound, "CommitVersion")
		list, err := w.s.FileSets(w.ctx, w.home.org, stint.Volumes, store.Range{Limit: 10})
		w.must(err, "FileSets")
		w.diff("trees left", []store.FileSet(nil), list)
		second := w.home.fileSet(stint.Volumes, "data")
		w.diff("the second begins anew", int64(1), w.home.committed(w.home.commit(second.ID, "one")).Number)
	}},
	{"a version that a checkpoint references remains after DeleteFileSet", func(w *world) {
		c := w.home.start()
		r := w.finish(c.Position, w.outcome(stint.Completed, w.home.withVersion("out", "pages"), w.home.checkpoint(c.Run)))
		tree, err := w.s.FileSetByName(w.ctx, w.home.org, stint.Artifacts, "out")
		w.must(err, "FileSetByName")
		w.must(w.s.DeleteFileSet(w.ctx, w.home.org, stint.Artifacts, tree.ID, w.now()), "DeleteFileSet")
		got, err := w.s.Checkpoint(w.ctx, w.home.org, *r.CheckpointID)
		w.must(err, "Checkpoint")
		w.diff("version", r.ArtifactVersion, got.ArtifactVersion)
		w.diff("content", digest("pages"), got.WorkspaceDigest)
		v := w.home.treeVersion(tree.ID, *got.ArtifactVersion, 0)
		w.diff("content of the version", digest("pages"), v.Digest)
	}},
}

// versionOf returns the version that a commit makes. parent is the version's parent, or nil.
func versionOf(kind stint.FileSetKind, c store.Commit, number int64, parent *store.FileSetVersion) store.FileSetVersion {
	v := store.FileSetVersion{FileSetID: c.FileSetID, Number: number, Digest: c.Digest}
	v.ID, v.Size, v.FileCount, v.Message, v.CreatedBy, v.CreatedAt = stint.FormatVersionID(number, c.Suffix), c.Size, c.FileCount, c.Message, c.CreatedBy, c.CreatedAt
	if kind == stint.Artifacts {
		v.ArtifactID = c.FileSetID
	} else {
		v.VolumeID = c.FileSetID
	}
	if parent != nil {
		v.ParentVersionID = &parent.ID
	}
	v.Origin.Type = stint.OriginPush
	if run, ok := strings.CutPrefix(c.CreatedBy, "run:"); ok {
		v.Origin = stint.VersionOrigin{Type: stint.OriginRun, RunID: &run, SessionID: &c.SessionID}
	}
	return v
}

// committed commits a version and returns it. It fails the test if CommitVersion adds no
// version.
func (o *tenant) committed(c store.Commit) store.FileSetVersion {
	o.w.Helper()
	v, added, err := o.w.s.CommitVersion(o.w.ctx, c)
	o.w.must(err, "CommitVersion")
	if !added {
		o.w.Fatalf("CommitVersion added nothing, the head is %s", v.ID)
	}
	return v
}

func (o *tenant) treeVersion(tree, id string, number int64) store.FileSetVersion {
	o.w.Helper()
	v, err := o.w.s.FileSetVersion(o.w.ctx, o.org, tree, id, number)
	o.w.must(err, "FileSetVersion")
	return v
}

func (o *tenant) wantConflict(c store.Commit, head string) {
	o.w.Helper()
	_, _, err := o.w.s.CommitVersion(o.w.ctx, c)
	conflict, ok := errors.AsType[*store.ConflictError](err)
	if !ok {
		o.w.Fatalf("CommitVersion with IfHead %q returned %v, want a *ConflictError", *c.IfHead, err)
	}
	o.w.diff("the head in the conflict", head, conflict.Head)
}
