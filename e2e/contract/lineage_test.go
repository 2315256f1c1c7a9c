package contract_test

import (
	"encoding/json"
	"strings"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/e2e/installation"
)

var lineageCases = []testCase{
	{"a fork does not change the files of a session", forkedSession},
	{"a session continues from the version of its cancelled run", continueAfterCancel},
	{"an artifact named in the request is the head", namedArtifact},
	{"a run that changes nothing does not move the head", unchangedArtifact},
	{"versions form a graph", versionGraph},
	{"promoting a version", promoting},
	{"an artifact without a current version", noCurrentVersion},
}

// note returns the note of a run's running event.
func (w *tenant) note(id string) string {
	w.Helper()
	for _, e := range w.journal(id) {
		var d stint.StatusData
		if e.Type == stint.EventStatus && json.Unmarshal(e.Data, &d) == nil && d.Status == stint.Running {
			return d.Note
		}
	}
	w.Fatalf("%s has no running event", id)
	return ""
}

// checkMove checks that the version from was the head before the completed run r moved it,
// according to the run and its complete event. If from is nil, the run must not have such a
// version.
func (w *tenant) checkMove(r stint.Run, from *stint.HeadMove) {
	w.Helper()
	w.equal("headMovedFrom", from, w.read(r.ID).HeadMovedFrom)
	events := w.journal(r.ID)
	var d stint.CompleteData
	if err := json.Unmarshal(events[len(events)-1].Data, &d); err != nil {
		w.Fatal(err)
	}
	w.equal("headMovedFrom of the event", from, d.HeadMovedFrom)
	_, has := w.object("/v1/runs/" + r.ID)["headMovedFrom"]
	w.equal("has a member headMovedFrom", from != nil, has)
}

func forkedSession(w *tenant) {
	a := w.run(object{"prompt": "echo reviewed by A > page", "artifactName": "work"})
	w.checkMove(a, nil)
	b := w.run(object{"sessionId": a.SessionID, "prompt": "echo reviewed by B >> page"})
	w.equal("note", "", w.note(b.ID))
	w.checkMove(b, nil)
	out, fork := w.runOutput(object{"checkpointId": *a.CheckpointID, "prompt": "cat page; echo forked C >> page"})
	w.equal("resumed", "reviewed by A\n", out)
	w.checkMove(fork, &stint.HeadMove{VersionID: *b.ArtifactVersion, SessionID: &a.SessionID})
	out, d := w.runOutput(object{"sessionId": a.SessionID, "prompt": "cat page; echo reviewed by D >> page"})
	w.equal("continued", "reviewed by A\nreviewed by B\n", out)
	if note := w.note(d.ID); !strings.Contains(note, "work@v2") || !strings.Contains(note, "v3") {
		w.Errorf("the note is %q", note)
	}
	w.checkMove(d, &stint.HeadMove{VersionID: *fork.ArtifactVersion, SessionID: &fork.SessionID})
	out, e := w.runOutput(object{"sessionId": a.SessionID, "prompt": "cat page"})
	w.equal("continued again", "reviewed by A\nreviewed by B\nreviewed by D\n", out)
	w.equal("note of the head", "", w.note(e.ID))
	out, _ = w.runOutput(object{"sessionId": fork.SessionID, "prompt": "cat page"})
	w.equal("the fork continued", "reviewed by A\nforked C\n", out)
}

func continueAfterCancel(w *tenant) {
	good := w.run(object{"prompt": "echo good > a", "artifactName": "out"})
	r := w.startRun(object{"sessionId": good.SessionID, "prompt": "echo stopped > a; echo done; exec sleep 600"})
	w.waitUntil("the file", func() bool { return strings.Contains(w.output(r.ID), "done") })
	w.cancel(r.ID)
	w.waitUntil("a checkpoint", func() bool { return w.read(r.ID).CheckpointID != nil })
	out, next := w.runOutput(object{"sessionId": good.SessionID, "prompt": "cat a; echo more >> a"})
	w.equal("continued", "stopped\n", out)
	if note := w.note(next.ID); !strings.Contains(note, "out@v2") {
		w.Errorf("the note is %q", note)
	}
	w.checkMove(next, nil) // the head is an ancestor
	out, _ = w.runOutput(object{"artifactName": "out", "prompt": "cat a"})
	w.equal("head", "stopped\nmore\n", out)
}

func namedArtifact(w *tenant) {
	first := w.run(object{"prompt": "echo one > a", "artifactName": "out"})
	w.run(object{"prompt": "echo two > a", "artifactName": "out"})
	fork := w.run(object{"checkpointId": *first.CheckpointID, "prompt": "echo three > a"})
	for _, body := range []object{{"sessionId": first.SessionID}, {"checkpointId": *first.CheckpointID}} {
		body["artifactName"], body["prompt"] = "out", "cat a"
		out, r := w.runOutput(body)
		w.equal("the head", "three\n", out)
		w.equal("version", fork.ArtifactVersion, r.ArtifactVersion)
		w.equal("note", "", w.note(r.ID))
		body["artifactVersion"] = "v2"
		out, r = w.runOutput(body)
		w.equal("the named version", "two\n", out)
		w.equal("note", "", w.note(r.ID))
	}
}

func unchangedArtifact(w *tenant) {
	first := w.run(object{"prompt": "echo one > a", "artifactName": "out"})
	second := w.run(object{"prompt": "echo two > a", "artifactName": "out"})
	for _, prompt := range []string{"true", "echo x > b; rm b"} {
		for _, body := range []object{{"artifactName": "out", "artifactVersion": "v1"}, {"checkpointId": *first.CheckpointID}} {
			body["prompt"] = prompt
			r := w.run(body)
			w.equal("version", first.ArtifactVersion, r.ArtifactVersion)
			w.checkMove(r, nil)
		}
	}
	failed := w.awaitStatus(w.create(object{"prompt": "exit 1", "artifactName": "out", "artifactVersion": "v1"}).ID, stint.Failed)
	w.equal("version of a failed run", first.ArtifactVersion, failed.ArtifactVersion)
	o, versions := w.artifact("out")
	w.equal("head", second.ArtifactVersion, o.CurrentVersionID)
	w.equal("versions", []string{*second.ArtifactVersion, *first.ArtifactVersion}, ids(versions))
	same := w.run(object{"prompt": "echo two > a", "artifactName": "out", "artifactVersion": "v1"})
	w.equal("a change to the content of the head is a version", "v3", strings.Split(*same.ArtifactVersion, "_")[0])
	w.checkMove(same, &stint.HeadMove{VersionID: *second.ArtifactVersion, SessionID: &second.SessionID})
}

func versionGraph(w *tenant) {
	first := w.run(object{"prompt": "echo one > a", "artifactName": "out"})
	o, _ := w.artifact("out")
	pushed := w.push("artifacts", o.ID, pack(w, files(object{"a": "pushed"})...))
	failed := w.awaitStatus(w.create(object{"prompt": "echo bad > a; exit 1", "artifactName": "out"}).ID, stint.Failed)
	fork := w.run(object{"checkpointId": *first.CheckpointID, "prompt": "echo fork > a"})
	w.checkMove(fork, &stint.HeadMove{VersionID: pushed.ID})
	resumed := w.run(object{"checkpointId": *failed.CheckpointID, "prompt": "echo fixed > a"})
	_, versions := w.artifact("out")
	parents := map[string]string{}
	for _, v := range versions {
		parents[v.ID] = installation.Value(v.ParentVersionID)
		var one stint.FileSetVersion
		w.get("/v1/artifacts/"+o.ID+"/versions/"+v.ID, &one)
		w.equal("version and list", v, one)
	}
	w.equal("parents", map[string]string{
		*first.ArtifactVersion: "", pushed.ID: *first.ArtifactVersion, *failed.ArtifactVersion: pushed.ID,
		*fork.ArtifactVersion: *first.ArtifactVersion, *resumed.ArtifactVersion: *failed.ArtifactVersion,
	}, parents)
	w.equal("origin of a push", stint.VersionOrigin{Type: stint.OriginPush}, versions[3].Origin)
	w.equal("origin of a run", stint.VersionOrigin{Type: stint.OriginRun, RunID: &first.ID, SessionID: &first.SessionID}, versions[4].Origin)
	w.must(204, request{method: "DELETE", path: "/v1/artifacts/" + o.ID + "/versions/" + pushed.ID}, nil)
	var child stint.FileSetVersion
	w.get("/v1/artifacts/"+o.ID+"/versions/"+*failed.ArtifactVersion, &child)
	w.equal("a removed parent", &pushed.ID, child.ParentVersionID)
}

func promoting(w *tenant) {
	for _, kind := range treeKinds {
		t := w.newTree(kind, "data")
		at := "/v1/" + kind + "/" + t.ID
		one := w.push(kind, t.ID, pack(w, files(object{"a": "one"})...))
		two := w.push(kind, t.ID, pack(w, files(object{"a": "second"})...))
		for _, form := range []string{one.ID, "v1", "1"} {
			var v, head stint.FileSetVersion
			w.must(200, request{method: "POST", path: at + "/versions/" + form + "/promote"}, &v)
			w.equal("promoted", one, v)
			w.get(at+"/versions/latest", &head)
			w.equal("latest", one, head)
		}
		var o stint.FileSetDetail
		w.get(at, &o)
		w.equal("current version", []any{one.ID, int64(3), one}, []any{installation.Value(o.CurrentVersionID), o.Size, *o.CurrentVersion})
		promote := request{method: "POST", path: at + "/versions/v2/promote", header: map[string]string{"If-Match": two.ID}}
		w.wantError(promote, 409, badHead, one.ID)
		promote.header = map[string]string{"If-Match": `"` + one.ID + `"`}
		w.must(200, promote, nil)
		for _, unknown := range []string{"v3", "v1_aaaaaaaaaaaaaaaaaaaa", "x"} {
			w.wantError(request{method: "POST", path: at + "/versions/" + unknown + "/promote"}, 404, notFound, unknown)
		}
		w.wantError(request{method: "POST", path: "/v1/" + kind + "/" + w.other().newTree(kind, "data").ID + "/versions/v1/promote"}, 404, notFound)
	}
}

func noCurrentVersion(w *tenant) {
	failed := w.awaitStatus(w.create(object{"prompt": "echo x > a; exit 1", "artifactName": "young"}).ID, stint.Failed)
	o, _ := w.artifact("young")
	at := "/v1/artifacts/" + o.ID + "/versions/"
	words := []string{"no current version", "v1 is from " + failed.ID + " (failed)", "young@v1"}
	w.wantError(request{method: "GET", path: at + "latest/files"}, 404, notFound, words...)
	w.must(200, request{method: "POST", path: at + "v1/promote"}, nil)
	out, _ := w.runOutput(object{"prompt": "cat a", "artifactName": "young"})
	w.equal("promoted", "x\n", out)
}
