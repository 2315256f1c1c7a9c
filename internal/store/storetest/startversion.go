package storetest

import (
	"strings"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/store"
)

var startCases = []testCase{
	{"a run that inherits no artifact has no start version", func(w *world) {
		first := w.home.complete("one", "")
		c := w.home.start(inSession(first.SessionID))
		w.diff("start", (*store.StartVersion)(nil), c.Start)
		w.diff("note", "", w.note(c))
	}},
	{"a session without versions starts from the head", func(w *world) {
		first := w.home.start()
		w.finish(first.Position, w.outcome(stint.Completed, w.home.checkpoint(first.Run)))
		w.home.wantStart(first.Run.SessionID, store.StartVersion{}, "")
		other := w.home.complete("one", "")
		w.home.wantStart(first.Run.SessionID, store.StartVersion{ID: *other.ArtifactVersion, Digest: digest("one")}, "")
	}},
	{"a session starts from the head if it descends from the session's version", func(w *world) {
		first := w.home.complete("one", "")
		own := store.StartVersion{ID: *first.ArtifactVersion, Digest: digest("one")}
		w.home.wantStart(first.SessionID, own, "")
		other := w.home.complete("two", own.ID)
		w.home.wantStart(first.SessionID, store.StartVersion{ID: *other.ArtifactVersion, Digest: digest("two")}, "")
		tree := w.home.artifact("out")
		pushed := w.home.committed(w.home.commit(tree.ID, "three"))
		w.home.wantStart(first.SessionID, store.StartVersion{ID: pushed.ID, Digest: digest("three")}, "")
		w.home.promote(tree.ID, *other.ArtifactVersion)
		fork := w.home.committed(w.home.commit(tree.ID, "four"))
		w.home.wantStart(first.SessionID, store.StartVersion{ID: fork.ID, Digest: digest("four")}, "")
	}},
	{"a session starts from its own version if the head does not contain it", func(w *world) {
		first := w.home.complete("one", "")
		second := w.home.complete("two", *first.ArtifactVersion, inSession(first.SessionID))
		own := store.StartVersion{ID: *second.ArtifactVersion, Digest: digest("two")}
		w.home.complete("fork", *first.ArtifactVersion)
		w.home.wantStart(first.SessionID, own, "v3 does not contain")
		w.home.promote(w.home.artifact("out").ID, *first.ArtifactVersion)
		w.home.wantStart(first.SessionID, own, "v1 does not contain")
		third := w.home.complete("three", own.ID, inSession(first.SessionID))
		w.home.wantStart(first.SessionID, store.StartVersion{ID: *third.ArtifactVersion, Digest: digest("three")}, "")
	}},
	{"a session starts from the version of its failed run", func(w *world) {
		c := w.home.start()
		r := w.finish(c.Position, w.outcome(stint.Failed, w.home.withVersion("out", "half"), w.home.checkpoint(c.Run)))
		half := store.StartVersion{ID: *r.ArtifactVersion, Digest: digest("half")}
		w.home.wantStart(r.SessionID, half, "no current version")
		w.home.complete("other", "")
		w.home.wantStart(r.SessionID, half, "out@v1")
	}},
	{"a session starts from its version of a deleted artifact", func(w *world) {
		first := w.home.complete("one", "")
		own := store.StartVersion{ID: *first.ArtifactVersion, Digest: digest("one")}
		w.must(w.s.DeleteFileSet(w.ctx, w.home.org, stint.Artifacts, w.home.artifact("out").ID, w.now()), "DeleteFileSet")
		w.home.wantStart(first.SessionID, own, "no current version")
		w.home.complete("new", "")
		w.home.wantStart(first.SessionID, own, "v1 does not contain")
	}},
	{"CreateRun with a claim and a retry have a start version", func(w *world) {
		first := w.home.complete("one", "")
		worker := w.worker()
		n := w.home.newRun(inSession(first.SessionID), inherits("out"), retries(1))
		claims, err := w.s.CreateRun(w.ctx, n, &store.ClaimRequest{WorkerID: worker, Max: 1, At: w.now()})
		w.must(err, "CreateRun")
		want := &store.StartVersion{ID: *first.ArtifactVersion, Digest: digest("one")}
		w.diff("start", want, claims[0].Start)
		w.lose(worker)
		w.diff("start of the retry", want, w.claimOne(w.worker()).Start)
	}},
	{"another artifact of the session is not its version", func(w *world) {
		first := w.home.complete("one", "")
		c := w.home.start(inSession(first.SessionID))
		w.finish(c.Position, w.outcome(stint.Completed, w.home.withVersion("extra", "x"), w.home.checkpoint(c.Run)))
		w.home.wantStart(first.SessionID, store.StartVersion{ID: *first.ArtifactVersion, Digest: digest("one")}, "")
	}},
}

func inherits(artifact string) func(*store.NewRun) {
	return func(n *store.NewRun) { n.Inherits = artifact }
}

// wantStart checks the start version and the note of a run that continues the session and
// inherits the artifact out. note is a part of the note, or empty if there is none. The run
// ends without a version.
func (o *tenant) wantStart(session string, want store.StartVersion, note string) {
	o.w.Helper()
	c := o.start(inSession(session), inherits("out"))
	o.w.diff("start", &want, c.Start)
	if got := o.w.note(c); (note == "") != (got == "") || !strings.Contains(got, note) {
		o.w.Errorf("the note of the running event is %q, want %q in it", got, note)
	}
	o.w.finish(c.Position, o.w.outcome(stint.Failed))
	o.checkRun(c.Run.ID)
}

// note returns the note of the running event at the position of a claim.
func (w *world) note(c store.Claim) string {
	w.Helper()
	events := w.events(c.Run.ID)
	d := data[stint.StatusData](w, events[c.Position.After-1])
	w.diff("status", stint.Running, d.Status)
	return d.Note
}
