package contract_test

import (
	"strings"

	"github.com/stint-dev/stint"
)

var agentCases = []testCase{
	{"objects of agents and versions", agentObjects},
	{"agents by name", agentsByName},
	{"an equal definition does not create a version", equalDefinition},
	{"invalid definitions", badDefinitions},
	{"deleted agents", deletedAgents},
}

func agentObjects(w *tenant) {
	var a object
	w.must(201, request{method: "POST", path: "/v1/agents", body: definition("reviewer", object{"description": "first", "timeout": "30m"})}, &a)
	w.equal("members", []string{"createdAt", "currentVersionId", "id", "name", "updatedAt"}, keys(a))
	at := "/v1/agents/" + a["id"].(string)
	w.equal("read", a, w.object(at))
	var v object
	w.must(201, request{method: "POST", path: at + "/versions", body: definition("", object{"description": "second"})}, &v)
	w.equal("a version", object{"id": v["id"], "agentId": a["id"], "versionNumber": 2.0, "createdAt": v["createdAt"]}, v)
	now := w.object(at)
	w.equal("head", v["id"], now["currentVersionId"])
	versions := list[object](w, at+"/versions", nil)
	w.equal("versions", []any{v["id"], a["currentVersionId"]}, []any{versions[0]["id"], versions[1]["id"]})
	one := w.object(at + "/versions/1")
	w.equal("the definition", any("first"), one["definition"].(object)["description"])
	w.equal("the second", any("second"), w.object(at + "/versions/latest")["definition"].(object)["description"])
	w.equal("members", []string{"agentId", "createdAt", "definition", "id", "versionNumber"}, keys(one))
	if !stint.IsID(stint.PrefixAgent, a["id"].(string)) || !stint.IsID(stint.PrefixAgentVersion, v["id"].(string)) {
		w.Errorf("identifiers %v, %v", a["id"], v["id"])
	}
}

func agentsByName(w *tenant) {
	w.agent("shell-two", nil)
	for name, want := range map[string]int{"shell": 1, "SHELL": 1, "Shell-Two": 1, "shel": 0, "shell%25": 0, "nobody": 0} {
		w.equal(name, want, len(list[object](w, "/v1/agents?name="+name, nil)))
	}
	w.equal("all", 2, len(list[object](w, "/v1/agents", nil)))
}

func equalDefinition(w *tenant) {
	at := "/v1/agents/" + w.shell.ID + "/versions"
	var first, again stint.AgentVersion
	w.must(201, request{method: "POST", path: at, body: `{"framework":"shell","description":"d","environment":{"A":"1","B":"2"}}`}, &first)
	w.must(200, request{method: "POST", path: at, body: `{ "environment": {"B":"2", "A":"1"}, "description":"d", "framework":"shell" }`}, &again)
	w.equal("the head", first.ID, again.ID)
	w.must(201, request{method: "POST", path: at, body: `{"framework":"shell","description":"other"}`}, nil)
	w.must(201, request{method: "POST", path: at, body: `{"framework":"shell","description":"d","environment":{"A":"1","B":"2"}}`}, &again)
	w.equal("number", int64(4), again.VersionNumber)
}

func badDefinitions(w *tenant) {
	for _, row := range []struct{ definition, at string }{
		{`{"framework":"shell","colour":"red"}`, "colour"},
		{`{"framework":"shell","Timeout":"1m"}`, "Timeout"},
		{`{"framework":"shell","volumes":{"data":{"pth":"/x"}}}`, "volumes.data.pth"},
		{`{"framework":"shell","volumes":{"data":{"path":"relative"}}}`, "volumes.data.path"},
		{`{"framework":"shell","volumes":{"data":{"path":"/etc"}}}`, "volumes.data.path"},
		{`{"framework":"shell","volumes":{"data":{"path":"/a/../b"}}}`, "volumes.data.path"},
		{`{"framework":"shell","volumes":{"data":{"path":"/workspace/x"}}}`, "volumes.data.path"},
		{`{"framework":"shell","volumes":["data"]}`, "volumes"},
		{`{"framework":"shell","timeout":5}`, "timeout"},
		{`{"framework":"shell","timeout":"soon"}`, "timeout"},
		{`{"framework":"shell","resources":{"memory":"much"}}`, "resources.memory"},
		{`{"framework":"shell","resources":{"pids":1}}`, "resources.pids"},
		{`{"framework":"shell","environment":{"A":1}}`, "environment"},
		{`{"framework":"shell","environment":{"STINT_X":"1"}}`, "environment.STINT_X"},
		{`{"framework":"perl"}`, "framework"},
		{`{"framework":7}`, "framework"},
		{`{"framework":"shell","sandbox":"none"}`, "sandbox"},
		{`{"framework":"shell","network":{"mode":"all"}}`, "network.mode"},
	} {
		for _, r := range []request{
			{method: "POST", path: "/v1/agents", body: strings.Replace(row.definition, "{", `{"name":"bad",`, 1)},
			{method: "POST", path: "/v1/agents/" + w.shell.ID + "/versions", body: row.definition},
		} {
			r.undocumented = true
			a := w.do(r)
			if f := a.apiError(); a.StatusCode != 400 || f.Type+" "+f.Code != invalid || !strings.HasPrefix(f.Param, row.at) {
				w.Errorf("%s returned %d %s", row.definition, a.StatusCode, a.body)
			}
		}
	}
	w.wantError(request{method: "POST", path: "/v1/agents", body: object{"name": "bad"}}, 400, missing, "framework")
	w.wantError(request{method: "POST", path: "/v1/agents", body: object{"name": "bad", "framework": "command"}}, 400, missing, "command")
	several := w.do(request{method: "POST", path: "/v1/agents", body: `{"name":"bad","framework":"shell","x":1,"y":2}`, undocumented: true})
	w.equal("details", 2, len(several.apiError().Details))
	w.equal("agents", 1, len(list[object](w, "/v1/agents", nil)))
	w.wantError(request{method: "POST", path: "/v1/agents/" + w.shell.ID + "/versions", body: object{"framework": "shell", "name": "another"}}, 400, invalid, "name")
}

func deletedAgents(w *tenant) {
	done := w.run(object{})
	w.must(204, request{method: "DELETE", path: "/v1/agents/" + w.shell.ID}, nil)
	for _, r := range []request{
		{method: "DELETE", path: "/v1/agents/" + w.shell.ID},
		{method: "GET", path: "/v1/agents/" + w.shell.ID},
		{method: "GET", path: "/v1/agents/" + w.shell.ID + "/versions"},
		{method: "GET", path: "/v1/agents/" + w.shell.ID + "/versions/1"},
		{method: "POST", path: "/v1/agents/" + w.shell.ID + "/versions", body: definition("", nil)},
	} {
		w.wantError(r, 404, notFound, w.shell.ID)
	}
	w.wantRunError(object{}, 404, notFound, "shell")
	w.wantRunError(object{"agentId": w.shell.ID}, 404, notFound, w.shell.ID)
	w.wantRunError(object{"sessionId": done.SessionID}, 404, notFound)
	w.equal("its run stays", "shell", w.read(done.ID).AgentName)
	if again := w.agent("shell", nil); again.ID == w.shell.ID {
		w.Error("the new agent has the old identifier")
	}
}
