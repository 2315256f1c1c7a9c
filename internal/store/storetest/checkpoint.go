package storetest

import (
	"errors"
	"fmt"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/store"
)

var addCheckpointCases = []testCase{
	{"AddCheckpoint attaches the state of a cancelled or lost run", func(w *world) {
		for _, e := range ends[3:] { // the ends cancelled and lost
			c := w.home.start()
			e.do(w, c)
			before, events := w.home.checkRun(c.Run.ID), w.events(c.Run.ID)
			v, chk := w.home.saved(c.Run, "out", e.name)
			got, err := w.s.AddCheckpoint(w.ctx, c.Position, &v, chk)
			w.must(err, e.name+": AddCheckpoint")
			want := before
			want.CheckpointID, want.ArtifactName, want.ArtifactVersion = &chk.ID, new("out"), got.ArtifactVersion
			w.diff(e.name+": returned run", want, got)
			w.diff(e.name+": stored run", want, w.home.run(c.Run.ID))
			w.diff(e.name+": journal", events, w.events(c.Run.ID))
			chk.ArtifactVersion = got.ArtifactVersion
			w.diff(e.name+": checkpoint", chk, w.home.readCheckpoint(chk.ID))
			w.diff(e.name+": checkpoint of the session", &chk.ID, w.home.session(c.Run.SessionID).CheckpointID)
			tree := w.home.artifact("out")
			w.diff(e.name+": head", (*string)(nil), tree.CurrentVersionID)
			w.diff(e.name+": content", digest(e.name), w.home.treeVersion(tree.ID, *got.ArtifactVersion, 0).Digest)
		}
	}},
	{"AddCheckpoint does not move the head and uses the version that the run started from for equal content", func(w *world) {
		tree := w.home.fileSet(stint.Artifacts, "out")
		head := w.home.committed(w.home.commit(tree.ID, "one"))
		for _, word := range []string{"other", "one"} {
			c := w.home.start()
			w.cancel(w.home.org, c.Run.ID)
			v, chk := w.home.saved(c.Run, "out", word)
			v.Commit.Parent = head.ID
			got, err := w.s.AddCheckpoint(w.ctx, c.Position, &v, chk)
			w.must(err, "AddCheckpoint")
			w.diff("head", &head.ID, w.home.artifact("out").CurrentVersionID)
			w.diff("is the head", word == "one", *got.ArtifactVersion == head.ID)
			w.diff("content", digest(word), w.home.treeVersion(tree.ID, *got.ArtifactVersion, 0).Digest)
		}
	}},
	{"AddCheckpoint without a version attaches the checkpoint alone", func(w *world) {
		c := w.home.start()
		w.cancel(w.home.org, c.Run.ID)
		_, chk := w.home.saved(c.Run, "out", "x")
		chk.ArtifactName = nil
		got, err := w.s.AddCheckpoint(w.ctx, c.Position, nil, chk)
		w.must(err, "AddCheckpoint")
		w.diff("checkpoint of the run", &chk.ID, got.CheckpointID)
		w.diff("version of the run", (*string)(nil), got.ArtifactVersion)
		w.diff("checkpoint", chk, w.home.readCheckpoint(chk.ID))
	}},
	{"AddCheckpoint keeps a later run's checkpoint in the session", func(w *world) {
		first := w.home.start()
		session := first.Run.SessionID
		w.cancel(w.home.org, first.Run.ID)
		second := w.home.start(inSession(session))
		w.cancel(w.home.org, second.Run.ID)
		third := w.home.start(inSession(session))
		late := func(c store.Claim, want store.Claim) {
			w.Helper()
			v, chk := w.home.saved(c.Run, "out", c.Run.ID)
			got, err := w.s.AddCheckpoint(w.ctx, c.Position, &v, chk)
			w.must(err, "AddCheckpoint")
			w.diff("checkpoint of the run", &chk.ID, got.CheckpointID)
			w.diff("checkpoint of the session", new("chk_"+want.Run.ID), w.home.session(session).CheckpointID)
		}
		late(second, second) // becomes the session's checkpoint, because the third run has none yet
		w.finish(third.Position, w.outcome(stint.Completed, w.home.checkpoint(third.Run)))
		late(first, third)
		fourth := w.home.start(inSession(session))
		w.finish(fourth.Position, w.outcome(stint.Completed, w.home.checkpoint(fourth.Run)))
		w.diff("checkpoint of the session", new("chk_"+fourth.Run.ID), w.home.session(session).CheckpointID)
	}},
	{"AddCheckpoint requires the last epoch", func(w *world) {
		old := w.home.start(retries(1))
		w.lose(old.Run.WorkerID)
		next := w.claimOne(w.worker())
		w.fencedCheckpoint(next, "a running run")
		w.cancel(w.home.org, old.Run.ID)
		w.fencedCheckpoint(old, "an earlier epoch")
		v, chk := w.home.saved(next.Run, "out", "x")
		_, err := w.s.AddCheckpoint(w.ctx, next.Position, &v, chk)
		w.must(err, "AddCheckpoint of the last epoch")
	}},
	{"AddCheckpoint does not replace a checkpoint", func(w *world) {
		c := w.home.start()
		r := w.finish(c.Position, w.outcome(stint.Completed, w.home.checkpoint(c.Run)))
		other := c
		other.Run.ID = w.ids.New(stint.PrefixRun) // the checkpoint's ID is derived from this ID
		w.fencedCheckpoint(other, "a run that has a checkpoint")
		w.diff("run", r, w.home.checkRun(c.Run.ID))
	}},
	{"concurrent AddCheckpoint succeeds once", func(w *world) {
		c := w.home.start()
		w.cancel(w.home.org, c.Run.ID)
		won := make([]bool, 8)
		w.concurrently(len(won), func(i int) error {
			v, chk := w.home.saved(c.Run, "out", fmt.Sprint(i))
			chk.ID = w.ids.New(stint.PrefixCheckpoint)
			_, err := w.s.AddCheckpoint(w.ctx, c.Position, &v, chk)
			won[i] = err == nil
			return ignoreFenced(err)
		})
		w.diff("winners", 1, count(won))
		list, err := w.s.FileSetVersions(w.ctx, w.home.org, w.home.artifact("out").ID, store.Range{Limit: 10})
		w.must(err, "FileSetVersions")
		w.diff("versions", 1, len(list))
	}},
	{"AddCheckpoint to an unknown run fails", func(w *world) {
		c := w.home.start()
		c.Position.RunID = w.ids.New(stint.PrefixRun)
		v, chk := w.home.saved(c.Run, "out", "x")
		_, err := w.s.AddCheckpoint(w.ctx, c.Position, &v, chk)
		if _, fenced := errors.AsType[*store.FencedError](err); !fenced && !errors.Is(err, store.ErrNotFound) {
			w.Errorf("AddCheckpoint returned %v, want a *FencedError or ErrNotFound", err)
		}
	}},
}

// saved returns two arguments for AddCheckpoint: a version of the artifact with content that
// depends on word, and a checkpoint of the run r.
func (o *tenant) saved(r store.Run, artifact, word string) (store.RunVersion, store.Checkpoint) {
	out := o.w.outcome(stint.Cancelled, o.withVersion(artifact, word), o.checkpoint(r))
	return *out.Version, *out.Checkpoint
}

// fencedCheckpoint checks that AddCheckpoint at the position of c returns a *FencedError and
// stores neither the checkpoint nor the version. what describes the run.
func (w *world) fencedCheckpoint(c store.Claim, what string) {
	w.Helper()
	v, chk := w.home.saved(c.Run, "never", "x")
	_, err := w.s.AddCheckpoint(w.ctx, c.Position, &v, chk)
	w.wantFenced(err, c.Position.RunID, "AddCheckpoint to "+what)
	_, err = w.s.Checkpoint(w.ctx, w.home.org, chk.ID)
	w.wantErr(err, store.ErrNotFound, "Checkpoint after the fence")
	_, err = w.s.FileSetByName(w.ctx, w.home.org, stint.Artifacts, "never")
	w.wantErr(err, store.ErrNotFound, "FileSetByName after the fence")
}
