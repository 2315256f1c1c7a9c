package contract_test

import (
	"strings"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/e2e/installation"
)

var artifactCases = []testCase{
	{"a completed run's artifact version is the head", completedArtifact},
	{"other runs create a version and do not move the head", otherArtifacts},
	{"a run starts with the artifact's head", artifactInput},
	{"workspace in another folder", workspaceElsewhere},
}

func (w *tenant) artifact(name string) (o stint.FileSetDetail, versions []stint.FileSetVersion) {
	w.Helper()
	at := "/v1/artifacts/" + w.tree("artifacts", name).ID
	w.get(at, &o)
	return o, list[stint.FileSetVersion](w, at+"/versions", nil)
}

func completedArtifact(w *tenant) {
	first := w.run(object{"prompt": "echo one > a; mkdir d; echo two > d/b", "artifactName": "out"})
	o, versions := w.artifact("out")
	w.equal("head", *first.ArtifactVersion, installation.Value(o.CurrentVersionID))
	w.equal("size and files", []int64{8, 2}, []int64{o.Size, o.FileCount})
	w.equal("createdBy", "run:"+first.ID, versions[0].CreatedBy)
	if !strings.Contains(versions[0].Message, first.ID) {
		w.Errorf("the message %q does not name the run", versions[0].Message)
	}
	same := w.run(object{"artifactName": "out"}) // the run does not change its workspace
	w.equal("version of an unchanged one", *first.ArtifactVersion, installation.Value(same.ArtifactVersion))
	second := w.run(object{"prompt": "echo more >> a", "artifactName": "out"})
	o, versions = w.artifact("out")
	w.equal("versions", []string{*second.ArtifactVersion, *first.ArtifactVersion}, ids(versions))
	w.equal("head", *second.ArtifactVersion, installation.Value(o.CurrentVersionID))
	if !strings.HasPrefix(*second.ArtifactVersion, "v2_") {
		w.Errorf("the second version is %s", *second.ArtifactVersion)
	}
}

func otherArtifacts(w *tenant) {
	lost := w.awaitStatus(w.create(object{"prompt": "echo x > a; exit 1", "artifactName": "young"}).ID, stint.Failed)
	o, versions := w.artifact("young")
	w.checkNulls(w.object("/v1/artifacts/"+o.ID), []string{"currentVersionId", "currentVersion"}, nil)
	w.equal("versions", []string{*lost.ArtifactVersion}, ids(versions))
	w.wantError(request{method: "GET", path: "/v1/artifacts/" + o.ID + "/download"}, 404, notFound)
	w.equal("by its version", "x\n", unpack(w, w.download("/v1/artifacts/"+o.ID+"/download?versionId="+*lost.ArtifactVersion))["a"].Text)

	head := *w.run(object{"prompt": "echo good > a", "artifactName": "out"}).ArtifactVersion
	failed := w.awaitStatus(w.create(object{"prompt": "echo bad > a; exit 1", "artifactName": "out"}).ID, stint.Failed)
	late := w.awaitStatus(w.create(object{"prompt": "echo late > a; exec sleep 600", "artifactName": "out", "timeout": soon}).ID, stint.TimedOut)
	cancelled := w.startRun(object{"prompt": "echo stopped > a; echo done; exec sleep 600", "artifactName": "out"})
	w.waitUntil("the file", func() bool { return strings.Contains(w.output(cancelled.ID), "done") })
	w.cancel(cancelled.ID)
	w.waitUntil("a checkpoint", func() bool { return w.read(cancelled.ID).CheckpointID != nil })
	cancelled = w.read(cancelled.ID)
	o, versions = w.artifact("out")
	w.equal("head", head, installation.Value(o.CurrentVersionID))
	w.equal("size of the head", int64(5), o.Size)
	w.equal("versions", []string{installation.Value(cancelled.ArtifactVersion), *late.ArtifactVersion, *failed.ArtifactVersion, head}, ids(versions))
	for i, r := range []stint.Run{cancelled, late, failed} {
		w.equal("createdBy", "run:"+r.ID, versions[i].CreatedBy)
		w.equal("artifact name", "out", installation.Value(r.ArtifactName))
		var c stint.Checkpoint
		w.get("/v1/checkpoints/"+*r.CheckpointID, &c)
		w.equal("version by the checkpoint", *r.ArtifactVersion, installation.Value(c.ArtifactVersion))
	}
	out, _ := w.runOutput(object{"checkpointId": *failed.CheckpointID, "prompt": "cat a"})
	w.equal("resumed", "bad\n", out)
	w.equal("download of the head", "good\n", unpack(w, w.download("/v1/artifacts/"+o.ID+"/download?versionId="+head))["a"].Text)
}

func artifactInput(w *tenant) {
	w.run(object{"prompt": "echo good > a", "artifactName": "out"})
	w.awaitStatus(w.create(object{"prompt": "cat a; echo bad > a; exit 1", "artifactName": "out"}).ID, stint.Failed)
	out, _ := w.runOutput(object{"prompt": "cat a", "artifactName": "out"})
	w.equal("after a failed run", "good\n", out)
	out, _ = w.runOutput(object{"prompt": "cat a", "artifactName": "out", "artifactVersion": "latest"})
	w.equal("latest", "good\n", out)
	out, _ = w.runOutput(object{"prompt": "cat a", "artifactName": "out", "artifactVersion": "v2"})
	w.equal("the failed run's version", "bad\n", out)
	t := w.newTree("artifacts", "pushed")
	w.push("artifacts", t.ID, pack(w, entry{Name: "b", Text: "pushed\n"}))
	out, _ = w.runOutput(object{"prompt": "cat b; ls", "artifactName": "pushed"})
	w.equal("pushed", "pushed\nb\n", out)
	w.newTree("artifacts", "empty")
	out, _ = w.runOutput(object{"prompt": "ls -A", "artifactName": "empty"})
	w.equal("without a version", "", out)
}

func workspaceElsewhere(w *tenant) {
	w.agent("elsewhere", object{"artifact": object{"path": "/results"}})
	out, _ := w.runOutput(object{"agent": "elsewhere", "prompt": "pwd; echo x > a; echo y > /results/b", "artifactName": "out"})
	w.equal("working directory", "/results\n", out)
	o, _ := w.artifact("out")
	got := unpack(w, w.download("/v1/artifacts/"+o.ID+"/download"))
	w.equal("files", []string{"x\n", "y\n"}, []string{got["a"].Text, got["b"].Text})
}
