package contract_test

import (
	"fmt"
	"strings"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/e2e/installation"
)

var createCases = []testCase{
	{"the four origins, alone and together", origins},
	{"contradictory origins", contradictoryOrigins},
	{"unknown references in a new run", unknownInRun},
	{"missing members of a new run", missingInRun},
	{"invalid members of a new run", invalidInRun},
	{"precedence of environment variables", environmentOrder},
	{"references of a definition", references},
	{"names of variables", variableNames},
	{"volumes of a run", mounts},
	{"optional volumes", optionalVolumes},
	{"agent versions of a run", agentVersions},
	{"volume and artifact versions of a run", treeVersionsOfRun},
	{"metadata, priority, and timeout", metadataPriorityTimeout},
	{"runs of a session execute one after another", sessionOrder},
}

func (w *tenant) wantRunError(body object, status int, typeAndCode string, words ...string) {
	w.Helper()
	w.wantError(request{method: "POST", path: "/v1/runs", body: w.newRun(body)}, status, typeAndCode, words...)
}

func origins(w *tenant) {
	first := w.run(object{})
	c, s := *first.CheckpointID, first.SessionID
	for _, row := range []struct {
		body    object
		session string // expected session; empty means a new one
		parent  string
	}{
		{object{"agent": "shell"}, "", ""},
		{object{"agentId": w.shell.ID}, "", ""},
		{object{"agent": "shell", "agentId": w.shell.ID}, "", ""},
		{object{"sessionId": s}, s, first.ID},
		{object{"checkpointId": c}, "", first.ID},
		{object{"checkpointId": c, "sessionId": s}, "", first.ID},
		{object{"checkpointId": c, "sessionId": s, "agentId": w.shell.ID, "agent": "shell"}, "", first.ID},
	} {
		r := w.run(row.body)
		if row.session == "" && (r.SessionID == s || r.SessionID == "") || row.session != "" && r.SessionID != row.session {
			w.Errorf("%v is of session %s", row.body, r.SessionID)
		}
		w.equal(fmt.Sprintf("parent of %v", row.body), row.parent, installation.Value(r.ParentRunID))
		w.equal("agent", "shell", r.AgentName)
	}
	last := w.read(list[stint.RunSummary](w, "/v1/runs?sessionId="+s, nil)[0].ID)
	r := w.run(object{"sessionId": s, "agent": "shell", "agentId": w.shell.ID})
	w.equal("session", s, r.SessionID)
	w.equal("parent", last.ID, installation.Value(r.ParentRunID))
}

func contradictoryOrigins(w *tenant) {
	other := w.agent("another", nil)
	one, two := w.run(object{}), w.run(object{})
	c, s := *one.CheckpointID, one.SessionID
	for _, row := range []struct {
		body  object
		words []string
	}{
		{object{"agent": "another", "agentId": w.shell.ID}, []string{"'agent'", "'agentId'"}},
		{object{"agent": "another", "sessionId": s}, []string{"'agent'", "'sessionId'"}},
		{object{"agentId": other.ID, "sessionId": s}, []string{"'agentId'", "'sessionId'"}},
		{object{"agent": "another", "checkpointId": c}, []string{"'agent'", "'checkpointId'"}},
		{object{"agentId": other.ID, "checkpointId": c}, []string{"'agentId'", "'checkpointId'"}},
		{object{"sessionId": two.SessionID, "checkpointId": c}, []string{"'sessionId'", "'checkpointId'"}},
	} {
		w.wantRunError(row.body, 400, invalid, row.words...)
	}
}

const noULID = "01jz8w1k2m4n6p8q0r2s4t6v8w"

func unknownInRun(w *tenant) {
	theirs := w.other()
	foreign := theirs.run(object{"artifactName": "theirs"})
	theirs.volume("theirs", object{"a": "1"})
	mine := w.run(object{})
	w.volume("data", object{"a": "1"})
	w.must(201, request{method: "POST", path: "/v1/volumes", body: object{"name": "empty"}}, nil)
	for _, row := range []struct {
		body  object
		asked string
	}{
		{object{"agent": "nobody"}, "nobody"},
		{object{"agent": "Shell"}, "Shell"},
		{object{"agent": strings.Repeat("x", 100)}, strings.Repeat("x", 100)},
		{object{"agentId": "ag_" + noULID}, "ag_" + noULID},
		{object{"agentId": "x"}, "'x'"},
		{object{"agentId": mine.ID}, mine.ID},
		{object{"agentId": foreign.AgentID}, foreign.AgentID},
		{object{"agentId": "ag_" + noULID, "agent": "shell"}, "ag_" + noULID},
		{object{"agentId": w.shell.ID, "agent": "nobody"}, "nobody"},
		{object{"sessionId": "sess_" + noULID}, "sess_" + noULID},
		{object{"sessionId": w.shell.ID}, w.shell.ID},
		{object{"sessionId": foreign.SessionID}, foreign.SessionID},
		{object{"checkpointId": "chk_" + noULID}, "chk_" + noULID},
		{object{"checkpointId": mine.ID}, mine.ID},
		{object{"checkpointId": *foreign.CheckpointID}, *foreign.CheckpointID},
		{object{"volumes": object{"nothing": "latest"}}, "nothing"},
		{object{"volumes": object{"theirs": "latest"}}, "theirs"},
		{object{"volumes": object{"data": "v9"}}, "v9"},
		{object{"volumes": object{"data": "nonsense"}}, "nonsense"},
		{object{"volumes": object{"empty": "latest"}}, "empty"},
		{object{"agentVersion": "v9"}, "v9"},
		{object{"agentVersion": "agv_" + noULID}, "agv_" + noULID},
		{object{"artifactName": "nothing", "artifactVersion": "v1"}, "nothing"},
		{object{"artifactName": "theirs", "artifactVersion": "v1"}, "theirs"},
	} {
		w.wantRunError(row.body, 404, notFound, row.asked)
	}
}

func missingInRun(w *tenant) {
	send := func(body object, words ...string) {
		w.Helper()
		w.wantError(request{method: "POST", path: "/v1/runs", body: body}, 400, missing, words...)
	}
	send(object{}, "agent", "prompt")
	send(object{"prompt": "x"}, "agent", "agentId", "sessionId", "checkpointId")
	send(object{"agent": "shell"}, "prompt")
	send(object{"agent": "shell", "prompt": ""}, "prompt")
	send(object{"agent": "", "prompt": "x"}, "agent")
	send(object{"agent": "shell", "prompt": "x", "artifactVersion": "v1"}, "artifactName")
	w.agent("needy", object{
		"environment": object{"A": "${{ vars.REGION }}-${{secrets.KEY}}", "B": "${{ vars.ZONE }}"},
		"volumes":     object{"data-${{ vars.SHARD }}": object{"version": "${{ vars.VERSION }}"}},
	})
	send(w.newRun(object{"agent": "needy"}), "variables.REGION", "secrets.KEY", "variables.ZONE", "variables.SHARD", "variables.VERSION")
	send(w.newRun(object{"agent": "needy", "variables": object{"REGION": "eu", "ZONE": "1", "SHARD": "a", "VERSION": "1", "KEY": "no secret"}}), "secrets.KEY")
	w.agent("tools", object{"framework": "assistant", "mcpServers": object{
		"far":  object{"url": "https://tools.example.com/mcp", "headers": object{"Authorization": "Bearer ${{ secrets.TOOLS_KEY }}"}},
		"near": object{"command": []string{"tools"}, "env": object{"PLACE": "${{ vars.PLACE }}"}},
	}})
	send(w.newRun(object{"agent": "tools"}), "secrets.TOOLS_KEY", "variables.PLACE")
}

func invalidInRun(w *tenant) {
	for name, v := range map[string]any{
		"agent": 7, "agentId": []any{}, "sessionId": true, "checkpointId": object{}, "agentVersion": 2, "prompt": []any{"x"}, "variables": "A=1",
		"secrets": []any{}, "volumes": "data", "artifactName": object{}, "artifactVersion": 1, "metadata": "x", "timeout": 5, "priority": "high", "limits": 3,
	} {
		w.wantRunError(object{name: v}, 400, invalid, "'"+name+"'")
	}
	w.wantRunError(object{"prompt": "a\x00b"}, 400, invalid, "prompt")
	w.wantRunError(object{"prompt": strings.Repeat("x", 512<<10+1)}, 400, invalid, "prompt")
	w.wantRunError(object{"variables": object{"A": 1}}, 400, invalid, "variables.A")
	w.wantRunError(object{"volumes": object{"NOT A NAME": "latest"}}, 400, invalid)
	w.wantRunError(object{"artifactName": "Not a name"}, 400, invalid, "Not a name")
	a := w.do(request{method: "POST", path: "/v1/runs", body: object{"prompt": 1, "variables": object{"A": 1}}, undocumented: true})
	if f := a.apiError(); len(f.Details) < 2 {
		w.Errorf("several errors are reported as %s", a.body)
	}
	for _, ignored := range []string{`{"agent":"shell","prompt":"true","Prompt":7,"unknown":{"a":[1,null]}}`, `{"agent":"shell","prompt":"true","variables":null,"sessionId":null}`} {
		w.must(202, request{method: "POST", path: "/v1/runs", body: ignored, undocumented: true}, nil)
	}
}

func environmentOrder(w *tenant) {
	w.must(201, request{method: "PUT", path: "/v1/secrets/B", body: object{"value": "stored B"}}, nil)
	w.must(201, request{method: "PUT", path: "/v1/secrets/C", body: object{"value": "stored C"}}, nil)
	w.must(201, request{method: "PUT", path: "/v1/secrets/D", body: object{"value": "stored D"}}, nil)
	w.agent("printer", object{
		"environment": object{"A": "defined A", "B": "defined B", "C": "defined C", "D": "defined D"}, "secrets": object{"B": object{}, "C": object{}, "D": object{}},
	})
	// Values of secrets are masked in output. Therefore, the script prints only the
	// first word of each value, in upper case.
	out, _ := w.runOutput(object{
		"agent": "printer", "variables": object{"C": "given C", "D": "given D"}, "secrets": object{"D": "hushed D"},
		"prompt": `for v in "$A" "$B" "$C" "$D"; do echo "${v% *}" | tr a-z A-Z; done`,
	})
	w.equal("who wins", "DEFINED\nSTORED\nGIVEN\nHUSHED\n", out)
}

func references(w *tenant) {
	v := w.volume("data-eu", object{"a.txt": "from eu"})
	w.agent("refers", object{
		"environment": object{"URL": "https://${{ vars.REGION }}.example/${{vars.REGION}}", "AUTH": "Bearer ${{ secrets.KEY }}", "ODD": "$${{ other.X }} $REGION"},
		"volumes":     object{"data-${{ vars.REGION }}": object{"path": "/data", "version": "${{ vars.VERSION }}"}},
	})
	out, r := w.runOutput(object{
		"agent": "refers", "variables": object{"REGION": "eu", "VERSION": "v1"}, "secrets": object{"KEY": "opensesame"},
		"prompt": `echo "$URL"; echo "${#AUTH}"; echo "$ODD"; cat /data/a.txt`,
	})
	w.equal("output", "https://eu.example/eu\n17\n${{ other.X }} $REGION\nfrom eu", out)
	w.equal("volumes", map[string]string{"data-eu": v.ID}, w.read(r.ID).Volumes)
	for _, odd := range []string{"${{ other.X }}", "${{ vars.Y", "${{ X }}", "${{}}", "${{ vars.a b }}"} {
		definition := object{"name": "odd", "framework": "shell", "environment": object{"ODD": odd}}
		w.wantError(request{method: "POST", path: "/v1/agents", body: definition}, 400, invalid, "environment.ODD")
	}
	w.wantRunError(object{"agent": "refers", "variables": object{"REGION": "NOT OK", "VERSION": "v1"}, "secrets": object{"KEY": "x"}}, 400, invalid)
	w.wantRunError(object{"agent": "refers", "variables": object{"REGION": "eu", "VERSION": "v7"}, "secrets": object{"KEY": "x"}}, 404, notFound, "v7")
}

func variableNames(w *tenant) {
	for _, member := range []string{"variables", "secrets"} {
		for _, bad := range []string{"", "1A", "A-B", "A B", "Ä", "A=B", "A.B", "STINT_TOKEN", "STINT_", "LD_PRELOAD", "LD_LIBRARY_PATH", strings.Repeat("A", 300)} {
			w.wantRunError(object{member: object{bad: "valuable"}}, 400, invalid)
		}
		w.run(object{member: object{"_": "valuable", "A_1": "valuable", "lower": "valuable", "STINT": "valuable", "PATH": "/usr/bin:/bin"}})
	}
	w.wantError(request{method: "POST", path: "/v1/agents", body: definition("bad", object{"environment": object{"LD_PRELOAD": "x"}})}, 400, invalid, "LD_PRELOAD")
	out, r := w.runOutput(object{"prompt": `echo "$STINT_RUN_ID $STINT_SESSION_ID"; printenv "M"`, "variables": object{"M": "a\n'b'\t\"$c\" ü"}})
	w.equal("output", r.ID+" "+r.SessionID+"\na\n'b'\t\"$c\" ü\n", out)
}

func mounts(w *tenant) {
	one, two := w.volume("one", object{"a.txt": "one"}), w.volume("two", object{"b.txt": "two"})
	w.agent("mounter", object{"volumes": object{"one": object{"path": "/data"}, "two": object{"path": "/private", "writable": true}}})
	script := `cat /data/a.txt; (echo x > /data/new) 2>/dev/null && echo WROTE; rm -f /data/a.txt 2>/dev/null && echo REMOVED
echo -n more >> /private/b.txt; echo x > /private/new; cat /private/b.txt; test -e /data/a.txt && echo kept`
	for range 2 { // the second run does not see the changes of the first run
		out, r := w.runOutput(object{"agent": "mounter", "prompt": script})
		w.equal("output", "onetwomorekept\n", out)
		w.equal("volumes", map[string]string{"one": one.ID, "two": two.ID}, r.Volumes)
	}
	for _, name := range []string{"one", "two"} {
		w.equal("versions of "+name, 1, len(list[stint.FileSetVersion](w, "/v1/volumes/"+w.tree("volumes", name).ID+"/versions", nil)))
	}
	out, r := w.runOutput(object{"prompt": "cat /volumes/one/a.txt; (echo x > /volumes/one/new) 2>/dev/null || echo readonly", "volumes": object{"one": "latest"}})
	w.equal("output of a volume that the request adds", "onereadonly\n", out)
	w.equal("volumes", map[string]string{"one": one.ID}, r.Volumes)
}

func optionalVolumes(w *tenant) {
	w.agent("maybe", object{"volumes": object{"extra": object{"path": "/extra", "optional": true}}})
	w.agent("must", object{"volumes": object{"extra": object{"path": "/extra"}}})
	w.wantRunError(object{"agent": "must"}, 404, notFound, "extra")
	out, r := w.runOutput(object{"agent": "maybe", "prompt": "ls /extra 2>/dev/null || echo none"})
	w.equal("output", "none\n", out)
	w.equal("volumes", map[string]string{}, r.Volumes)
	w.wantRunError(object{"agent": "maybe", "volumes": object{"extra": "latest"}}, 404, notFound, "extra")
	v := w.volume("extra", object{"here": ""})
	out, r = w.runOutput(object{"agent": "maybe", "prompt": "ls /extra"})
	w.equal("output", "here\n", out)
	w.equal("volumes", map[string]string{"extra": v.ID}, r.Volumes)
}

func agentVersions(w *tenant) {
	first := w.agent("many", object{"environment": object{"V": "1"}})
	var second stint.AgentVersion
	w.must(201, request{method: "POST", path: "/v1/agents/" + first.ID + "/versions", body: definition("", object{"environment": object{"V": "2"}})}, &second)
	for asked, want := range map[string]string{
		"": "2\n", "latest": "2\n", "v1": "1\n", "1": "1\n", first.CurrentVersionID: "1\n", "v2": "2\n", "2": "2\n", second.ID: "2\n",
	} {
		body := object{"agent": "many", "prompt": "echo $V"}
		if asked != "" {
			body["agentVersion"] = asked
		}
		out, _ := w.runOutput(body)
		w.equal("version "+asked, want, out)
	}
	for _, bad := range append(badVersions, "v3", w.shell.CurrentVersionID) {
		w.wantRunError(object{"agent": "many", "agentVersion": bad}, 404, notFound, bad)
		if bad != "" && !strings.ContainsAny(bad, " /") {
			w.wantError(request{method: "GET", path: "/v1/agents/" + first.ID + "/versions/" + strings.ReplaceAll(bad, "+", "%2B")}, 404, notFound, bad)
		}
	}
}

// badVersions are invalid version specifiers, and IDs of versions that do not exist.
var badVersions = []string{"v0", "0", "-1", "v-1", "+1", "v+1", "01", "v01", "V1", "v", "vv1", "1.0", "v1_", "LATEST", "head", " 1", "99999999999999999999", "v1_aaaaaaaaaaaaaaaaaaaa"}

func treeVersionsOfRun(w *tenant) {
	one := w.volume("data", object{"a": "one"})
	two := w.volume("data", object{"a": "two"})
	foreign := w.volume("foreign", object{"a": "three"})
	for asked, want := range map[string]string{"latest": "two", "v1": "one", "1": "one", one.ID: "one", "v2": "two", "2": "two", two.ID: "two"} {
		out, _ := w.runOutput(object{"prompt": "cat /volumes/data/a", "volumes": object{"data": asked}})
		w.equal("volume "+asked, want, out)
	}
	a1 := w.run(object{"prompt": "printf one > a", "artifactName": "out"}).ArtifactVersion
	a2 := w.run(object{"prompt": "printf two > a", "artifactName": "out"}).ArtifactVersion
	for asked, want := range map[string]string{"": "two", "latest": "two", "v1": "one", "1": "one", *a1: "one", "v2": "two", *a2: "two"} {
		body := object{"prompt": "cat a", "artifactName": "out"}
		if asked != "" {
			body["artifactVersion"] = asked
		}
		out, _ := w.runOutput(body)
		w.equal("artifact "+asked, want, out)
	}
	for _, bad := range append(badVersions, foreign.ID, "v77") {
		w.wantRunError(object{"volumes": object{"data": bad}}, 404, notFound, bad)
		w.wantRunError(object{"artifactName": "out", "artifactVersion": bad}, 404, notFound, bad)
	}
}

func metadataPriorityTimeout(w *tenant) {
	w.agent("brief", object{"timeout": "5s"})
	many, long := object{}, strings.Repeat("x", 513)
	for i := range 17 {
		many[fmt.Sprint("k", i)] = "v"
	}
	for _, row := range []struct {
		body object
		word string
	}{
		{object{"metadata": many}, "metadata"},
		{object{"metadata": object{"a": 1}}, "metadata.a"},
		{object{"metadata": object{"a": nil}}, "metadata.a"},
		{object{"metadata": object{"": "x"}}, "metadata"},
		{object{"metadata": object{"a": long}}, "metadata"},
		{object{"priority": -1}, "priority"},
		{object{"priority": 10}, "priority"},
		{object{"priority": 1.5}, "priority"},
		{object{"timeout": "0s"}, "timeout"},
		{object{"timeout": "-5s"}, "timeout"},
		{object{"timeout": "soon"}, "timeout"},
		{object{"timeout": "9h"}, "timeout"},
		{object{"timeout": "6s", "agent": "brief"}, "timeout"},
	} {
		w.wantRunError(row.body, 400, invalid, row.word)
	}
	delete(many, "k16")
	r := w.run(object{"metadata": many, "priority": 9, "timeout": "90s"})
	w.equal("metadata", 16, len(r.Metadata))
	w.run(object{"priority": 0, "agent": "brief", "timeout": "5s"})
}

func sessionOrder(w *tenant) {
	first := w.create(object{"prompt": "echo 1 >> ~/log; sleep 0.2"})
	ids := []string{first.ID}
	for i := range 3 {
		ids = append(ids, w.create(object{"sessionId": first.SessionID, "prompt": fmt.Sprintf("echo %d >> ~/log; sleep 0.1", i+2)}).ID)
	}
	last := w.create(object{"sessionId": first.SessionID, "prompt": "cat ~/log"})
	w.awaitStatus(last.ID, stint.Completed)
	w.equal("the log in their home", "1\n2\n3\n4\n", w.output(last.ID))
	before := w.read(ids[0])
	for _, id := range ids[1:] {
		r := w.read(id)
		if r.StartedAt.Before(before.CompletedAt.Time) {
			w.Errorf("a run started at %s, the one before it ended at %s", r.StartedAt, before.CompletedAt)
		}
		before = r
	}
}
