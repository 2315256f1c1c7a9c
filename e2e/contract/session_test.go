package contract_test

import (
	"fmt"
	"strings"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/e2e/installation"
)

var sessionCases = []testCase{
	{"continuing a session", continuing},
	{"resuming a checkpoint", resuming},
	{"every ended run has a checkpoint", checkpointOfEveryEnd},
	{"secrets must be passed again", secretsNotInherited},
	{"objects of sessions and checkpoints", sessionObjects},
}

// printState is a script that prints its variables and the content of its folders, and
// appends a line to a file in the home folder.
const printState = `echo "V=$V A=$A B=$B"; cat ~/talk work /volumes/data/a /volumes/extra/a 2>/dev/null; echo more >> ~/talk`

// history is a session and the versions of its agent, volumes, and artifact: the first
// versions, which the first run of the session used, and newer ones.
type history struct {
	first      stint.Run
	a1, a2     string // agent versions
	d1, d2     string // versions of the volume data
	e1, e2     string // versions of the volume extra
	out1, out2 string // versions of the artifact
}

func (w *tenant) history() (h history) {
	w.Helper()
	more := func(v string) object {
		return object{"environment": object{"V": v}, "volumes": object{"data": object{"path": "/volumes/data"}}}
	}
	agent := w.agent("talker", more("1"))
	h.a1 = agent.CurrentVersionID
	h.d1, h.e1 = w.volume("data", object{"a": "data1\n"}).ID, w.volume("extra", object{"a": "extra1\n"}).ID
	h.first = w.run(object{
		"agent": "talker", "prompt": "echo one > ~/talk; echo work1 > work", "artifactName": "out",
		"variables": object{"A": "a1", "B": "b1"}, "volumes": object{"extra": "latest"},
	})
	h.out1 = *h.first.ArtifactVersion
	var v stint.AgentVersion
	w.must(201, request{method: "POST", path: "/v1/agents/" + agent.ID + "/versions", body: definition("", more("2"))}, &v)
	h.a2 = v.ID
	h.d2, h.e2 = w.volume("data", object{"a": "data2\n"}).ID, w.volume("extra", object{"a": "extra2\n"}).ID
	h.out2 = *w.run(object{"prompt": "echo work2 > work", "artifactName": "out"}).ArtifactVersion
	return h
}

func continuing(w *tenant) {
	h := w.history()
	s := h.first.SessionID
	out, second := w.runOutput(object{"sessionId": s, "prompt": printState})
	w.equal("agent latest, home newest, artifact latest, volumes latest, variables the last run's",
		"V=2 A=a1 B=b1\none\nwork2\ndata2\nextra2\n", out)
	w.equal("volumes", map[string]string{"data": h.d2, "extra": h.e2}, second.Volumes)
	w.equal("session and parent", []string{s, h.first.ID}, []string{second.SessionID, installation.Value(second.ParentRunID)})
	w.equal("artifact", "out", installation.Value(second.ArtifactName))

	out, third := w.runOutput(object{
		"sessionId": s, "prompt": printState, "agentVersion": "v1", "volumes": object{"data": "v1"}, "variables": object{"A": "a3"},
		"artifactName": "out", "artifactVersion": h.out1,
	})
	w.equal("as the request says, and home newest", "V=1 A=a3 B=b1\none\nmore\nwork1\ndata1\nextra2\n", out)
	w.equal("parent", second.ID, installation.Value(third.ParentRunID))
	out, _ = w.runOutput(object{"sessionId": s, "prompt": "echo $A $V"})
	w.equal("variables of the last run, agent latest again", "a3 2\n", out)
}

func resuming(w *tenant) {
	h := w.history()
	w.run(object{"sessionId": h.first.SessionID, "prompt": "echo two >> ~/talk; echo work3 > work", "variables": object{"A": "a2"}})
	c := *h.first.CheckpointID
	out, fork := w.runOutput(object{"checkpointId": c, "prompt": printState})
	w.equal("all as at the checkpoint", "V=1 A=a1 B=b1\none\nwork1\ndata1\nextra1\n", out)
	w.equal("volumes", map[string]string{"data": h.d1, "extra": h.e1}, fork.Volumes)
	w.equal("parent", h.first.ID, installation.Value(fork.ParentRunID))
	if fork.SessionID == h.first.SessionID {
		w.Error("the resumed run is of the same session")
	}
	out, _ = w.runOutput(object{
		"checkpointId": c, "prompt": printState, "agentVersion": "latest", "volumes": object{"data": "latest"}, "variables": object{"B": "b2"},
		"artifactName": "out", "artifactVersion": h.out2,
	})
	w.equal("as the request says, and home the checkpoint's", "V=2 A=a1 B=b2\none\nwork2\ndata2\nextra1\n", out)
	out, _ = w.runOutput(object{"sessionId": fork.SessionID, "prompt": "cat ~/talk"})
	w.equal("the fork goes on by itself", "one\nmore\n", out)

	plain := w.run(object{"prompt": "echo kept > file"}) // without an artifact, the checkpoint contains the workspace
	out, _ = w.runOutput(object{"checkpointId": *plain.CheckpointID, "prompt": "cat file; echo changed > file"})
	w.equal("workspace of a resumed run", "kept\n", out)
	out, _ = w.runOutput(object{"sessionId": plain.SessionID, "prompt": "cat file"})
	w.equal("workspace of a continued run", "kept\n", out)
}

func checkpointOfEveryEnd(w *tenant) {
	for _, row := range []struct {
		status stint.Status
		body   object
	}{
		{stint.Completed, object{"prompt": "echo state > ~/talk"}},
		{stint.Failed, object{"prompt": "echo state > ~/talk; exit 1"}},
		{stint.TimedOut, object{"prompt": "echo state > ~/talk; exec sleep 600", "timeout": soon}},
		{stint.Cancelled, object{"prompt": "echo state > ~/talk; echo ready; exec sleep 600"}},
	} {
		row.body["variables"], row.body["artifactName"] = object{"A": "1"}, "out-"+string(row.status)
		r := w.create(row.body)
		if row.status == stint.Cancelled {
			w.waitUntil("state", func() bool { return w.output(r.ID) == "ready\n" })
			w.cancel(r.ID)
			w.waitUntil("a checkpoint", func() bool { return w.read(r.ID).CheckpointID != nil })
		}
		r = w.awaitStatus(r.ID, row.status)
		if r.CheckpointID == nil {
			w.Errorf("a %s run has no checkpoint", row.status)
			continue
		}
		var c stint.Checkpoint
		w.get("/v1/checkpoints/"+*r.CheckpointID, &c)
		w.equal("run and session", []string{r.ID, r.SessionID}, []string{c.RunID, c.SessionID})
		if c.ArtifactVersion == nil || installation.Value(c.ArtifactName) != "out-"+string(row.status) {
			w.Errorf("the checkpoint of a %s run has the artifact %v, %v", row.status, installation.Value(c.ArtifactName), c.ArtifactVersion)
		}
		out, _ := w.runOutput(object{"checkpointId": c.ID, "prompt": "cat ~/talk || true; echo $A"})
		if out != "state\n1\n" {
			w.Errorf("resuming a %s run returned %q", row.status, out)
		}
		w.run(object{"sessionId": r.SessionID})
	}
}

func secretsNotInherited(w *tenant) {
	w.agent("needy", object{"environment": object{"K": "${{ secrets.KEY }}"}})
	first := w.run(object{"agent": "needy", "secrets": object{"KEY": "opensesame", "MORE": "opensesame too"}})
	for _, origin := range []object{{"sessionId": first.SessionID}, {"checkpointId": *first.CheckpointID}} {
		w.wantRunError(origin, 400, missing, "secrets.KEY")
		origin["secrets"], origin["prompt"] = object{"KEY": "other"}, `echo "${#K} ${#MORE}"`
		out, _ := w.runOutput(origin)
		w.equal(fmt.Sprint(origin), "5 0\n", out)
	}
	w.must(201, request{method: "PUT", path: "/v1/secrets/KEY", body: object{"value": "stored"}}, nil)
	out, _ := w.runOutput(object{"sessionId": first.SessionID, "prompt": `echo "${#K}"`}) // a stored secret need not be passed
	w.equal("stored", "6\n", out)
}

func sessionObjects(w *tenant) {
	v := w.volume("data", object{"a": "1"})
	first := w.run(object{
		"artifactName": "out", "prompt": "echo x > x", "variables": object{"A": "1"}, "secrets": object{"S": "opensesame", "B": "opensesame2"},
		"volumes": object{"data": "latest"},
	})
	c := w.object("/v1/checkpoints/" + *first.CheckpointID)
	w.equal("a checkpoint", object{
		"id": *first.CheckpointID, "runId": first.ID, "sessionId": first.SessionID, "agentId": w.shell.ID, "agentName": "shell",
		"agentVersionId": w.shell.CurrentVersionID, "artifactName": "out", "artifactVersion": *first.ArtifactVersion,
		"volumes": object{"data": v.ID}, "variables": object{"A": "1"}, "secretNames": []any{"B", "S"}, "createdAt": c["createdAt"],
	}, c)
	second := w.run(object{"sessionId": first.SessionID})
	s := w.object("/v1/sessions/" + first.SessionID)
	w.equal("a session", object{
		"id": first.SessionID, "agentId": w.shell.ID, "agentName": "shell", "checkpointId": *second.CheckpointID, "lastRunId": second.ID,
		"createdAt": s["createdAt"], "updatedAt": s["updatedAt"],
	}, s)
	w.equal("in the list", []object{s}, list[object](w, "/v1/sessions", nil))
	if strings.Contains(fmt.Sprint(c, s), "opensesame") {
		w.Error("a secret is shown")
	}
}
