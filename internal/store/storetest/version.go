package storetest

import (
	"fmt"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/store"
)

var versionCases = []testCase{
	{"Finish creates the artifact that the name does not find", func(w *world) {
		c := w.home.start()
		o := w.outcome(stint.Completed, w.home.withVersion("out", "pages"))
		o.Version.Commit.CreatedBy = "run:" + c.Run.ID
		r := w.finish(c.Position, o)
		w.diff("artifact of the run", new("out"), r.ArtifactName)
		tree := w.home.artifact("out")
		w.diff("identifier", o.Version.Artifact.ID, tree.ID)
		w.diff("head", r.ArtifactVersion, tree.CurrentVersionID)
		w.diff("created", o.Version.Artifact.CreatedAt, tree.CreatedAt)
		commit := o.Version.Commit
		commit.FileSetID, commit.SessionID = tree.ID, c.Run.SessionID
		w.diff("version", versionOf(stint.Artifacts, commit, 1, nil), w.home.treeVersion(tree.ID, "", 0))
		w.home.checkRun(c.Run.ID)
	}},
	{"Finish adds to the artifact that has the name", func(w *world) {
		tree := w.home.fileSet(stint.Artifacts, "out")
		w.home.committed(w.home.commit(tree.ID, "one"))
		w.home.fileSet(stint.Volumes, "out") // Finish must not use a volume that has the artifact's name
		w.tenant("other").fileSet(stint.Artifacts, "out")
		c := w.home.start()
		r := w.finish(c.Position, w.outcome(stint.Completed, w.home.withVersion("out", "two")))
		head := w.home.treeVersion(tree.ID, "", 0)
		w.diff("number", int64(2), head.Number)
		w.diff("version of the run", &head.ID, r.ArtifactVersion)
		w.diff("size of the artifact", head.Size, w.home.artifact("out").Size)
	}},
	{"Finish makes a new artifact after the old one was deleted", func(w *world) {
		old := w.home.fileSet(stint.Artifacts, "out")
		w.home.committed(w.home.commit(old.ID, "one"))
		w.must(w.s.DeleteFileSet(w.ctx, w.home.org, stint.Artifacts, old.ID, w.now()), "DeleteFileSet")
		c := w.home.start()
		o := w.outcome(stint.Completed, w.home.withVersion("out", "one"))
		r := w.finish(c.Position, o)
		w.diff("identifier", o.Version.Artifact.ID, w.home.artifact("out").ID)
		w.diff("version", new(stint.FormatVersionID(1, o.Version.Commit.Suffix)), r.ArtifactVersion)
	}},
	{"the head moves only when the run completed", func(w *world) {
		tree := w.home.fileSet(stint.Artifacts, "out")
		head := w.home.committed(w.home.commit(tree.ID, "one"))
		for i, status := range []stint.Status{stint.Failed, stint.TimedOut} {
			c := w.home.start()
			r := w.finish(c.Position, w.outcome(status, w.home.withVersion("out", string(status)), w.home.checkpoint(c.Run)))
			w.diff("head after "+string(status), &head.ID, w.home.artifact("out").CurrentVersionID)
			v := w.home.treeVersion(tree.ID, *r.ArtifactVersion, 0)
			w.diff("number", int64(i+2), v.Number)
			w.diff("content", digest(string(status)), v.Digest)
			w.diff("version in the checkpoint", r.ArtifactVersion, w.home.readCheckpoint(*r.CheckpointID).ArtifactVersion)
			w.home.checkRun(c.Run.ID)
		}
		c := w.home.start()
		r := w.finish(c.Position, w.outcome(stint.Completed, w.home.withVersion("out", "done")))
		w.diff("head after completed", r.ArtifactVersion, w.home.artifact("out").CurrentVersionID)
		w.diff("number", int64(4), w.home.treeVersion(tree.ID, "", 0).Number)
	}},
	{"a run that did not complete leaves a new artifact without a head", func(w *world) {
		c := w.home.start()
		r := w.finish(c.Position, w.outcome(stint.Failed, w.home.withVersion("out", "half")))
		tree := w.home.artifact("out")
		w.diff("head", (*string)(nil), tree.CurrentVersionID)
		w.diff("content", digest("half"), w.home.treeVersion(tree.ID, *r.ArtifactVersion, 0).Digest)
	}},
	{"runs that finish at the same time make one artifact and a version each", func(w *world) {
		w.home.createMany(12)
		claims := w.claim(w.worker(), 12)
		got := make([]string, len(claims))
		w.concurrently(len(claims), func(i int) error {
			r, err := w.s.Finish(w.ctx, claims[i].Position, w.outcome(stint.Completed, w.home.withVersion("out", fmt.Sprint(i))))
			if err == nil {
				got[i] = *r.ArtifactVersion
			}
			return err
		})
		tree := w.home.artifact("out")
		w.diff("versions", len(claims), len(set(got)))
		for i, id := range got {
			w.diff("content", digest(fmt.Sprint(i)), w.home.treeVersion(tree.ID, id, 0).Digest)
		}
		w.diff("number of the head", int64(len(claims)), w.home.treeVersion(tree.ID, "", 0).Number)
	}},
	{"the checkpoint is stored and named by run and session", func(w *world) {
		c := w.home.start()
		o := w.outcome(stint.Completed, w.home.withVersion("out", "pages"), w.home.checkpoint(c.Run))
		r := w.finish(c.Position, o)
		want := *o.Checkpoint
		want.ArtifactVersion = r.ArtifactVersion
		w.diff("checkpoint", want, w.home.readCheckpoint(want.ID))
		w.diff("checkpoint of the run", &want.ID, r.CheckpointID)
		w.diff("checkpoint of the session", &want.ID, w.home.session(r.SessionID).CheckpointID)
		w.home.checkRun(c.Run.ID)
	}},
	{"a checkpoint without a version names none", func(w *world) {
		c := w.home.start()
		r := w.finish(c.Position, w.outcome(stint.Completed, w.home.checkpoint(c.Run)))
		w.diff("version", (*string)(nil), w.home.readCheckpoint(*r.CheckpointID).ArtifactVersion)
		w.diff("version of the run", (*string)(nil), r.ArtifactVersion)
	}},
	{"a session keeps its newest checkpoint", func(w *world) {
		first := w.home.start()
		w.finish(first.Position, w.outcome(stint.Completed, w.home.checkpoint(first.Run)))
		second := w.home.start(inSession(first.Run.SessionID))
		w.finish(second.Position, w.outcome(stint.Failed))
		third := w.home.start(inSession(first.Run.SessionID))
		w.diff("after a run without one", new("chk_"+first.Run.ID), w.home.session(first.Run.SessionID).CheckpointID)
		w.finish(third.Position, w.outcome(stint.Failed, w.home.checkpoint(third.Run)))
		w.diff("after a run with one", new("chk_"+third.Run.ID), w.home.session(first.Run.SessionID).CheckpointID)
	}},
}

// withVersion returns a function that adds a version of the artifact called name to an
// outcome. The digest of the version is the SHA-256 of word.
func (o *tenant) withVersion(name, word string) func(*store.Outcome) {
	return func(out *store.Outcome) {
		tree := o.fileSetOf(stint.Artifacts, name)
		c := o.commit("", word)
		c.CreatedBy = "run"
		out.Version = &store.RunVersion{Artifact: tree, Commit: c}
	}
}

// from returns a function that makes a version the parent of the version of an outcome. It
// follows withVersion.
func from(id string) func(*store.Outcome) {
	return func(out *store.Outcome) { out.Version.Commit.Parent = id }
}

// checkpoint returns a function that adds a checkpoint of r to an outcome. The ID of
// the checkpoint is "chk_" and the ID of the run. If the outcome already has a version,
// the checkpoint names the artifact of that version.
func (o *tenant) checkpoint(r store.Run) func(*store.Outcome) {
	return func(out *store.Outcome) {
		c := &store.Checkpoint{OrgID: o.org, HomeDigest: digest("home of " + r.ID)}
		c.ID, c.RunID, c.SessionID = "chk_"+r.ID, r.ID, r.SessionID
		c.AgentID, c.AgentName, c.AgentVersionID = r.AgentID, r.AgentName, r.AgentVersionID
		c.Volumes, c.Variables = map[string]string{"data": "v1_aaaaaaaaaaaaaaaaaaaa"}, map[string]string{"A": "b"}
		c.SecretNames, c.CreatedAt = []string{"KEY", "TOKEN"}, out.At
		if out.Version != nil {
			c.ArtifactName, c.WorkspaceDigest = &out.Version.Artifact.Name, out.Version.Commit.Digest
		}
		out.Checkpoint = c
	}
}

func (o *tenant) artifact(name string) store.FileSet {
	o.w.Helper()
	t, err := o.w.s.FileSetByName(o.w.ctx, o.org, stint.Artifacts, name)
	o.w.must(err, "FileSetByName")
	return t
}

func (o *tenant) readCheckpoint(id string) store.Checkpoint {
	o.w.Helper()
	c, err := o.w.s.Checkpoint(o.w.ctx, o.org, id)
	o.w.must(err, "Checkpoint")
	return c
}

func (o *tenant) session(id string) store.Session {
	o.w.Helper()
	s, err := o.w.s.Session(o.w.ctx, o.org, id)
	o.w.must(err, "Session")
	return s
}
