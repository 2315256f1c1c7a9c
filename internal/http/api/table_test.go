package api_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint"
)

// row is a request with the expected response. Requests with a status of 400 or more, or
// a name that starts with "odd: ", may violate the contract.
type row struct {
	name         string
	method, path string
	token        string // token, or its name in the words of run; see request
	header       map[string]string
	body         any
	status       int
	has          []string // parts of the body
	hasNot       []string
}

const (
	invalid  = `"type":"invalid_request_error","code":"invalid_parameter"`
	missing  = `"type":"invalid_request_error","code":"missing_parameter"`
	state    = `"type":"invalid_request_error","code":"invalid_state"`
	notFound = `"type":"not_found_error","code":"resource_not_found"`
	exists   = `"type":"conflict_error","code":"resource_already_exists"`
	scope    = `"type":"permission_error","code":"insufficient_scope"`
	badKey   = `"type":"authentication_error","code":"invalid_api_key"`
	media    = `"type":"invalid_request_error","code":"unsupported_media_type"`
)

// run sends the request of each row and checks the response. It replaces {word} by the
// value in words in paths, texts of bodies, and expected texts.
func (w *world) run(t *testing.T, words map[string]string, rows []row) {
	t.Helper()
	var pairs []string
	for word, value := range words {
		pairs = append(pairs, "{"+word+"}", value)
	}
	fill := strings.NewReplacer(pairs...)
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			body := r.body
			if text, ok := body.(string); ok {
				body = fill.Replace(text)
			}
			token := r.token
			if value, ok := words[token]; ok {
				token = value
			}
			a := w.do(request{method: r.method, path: fill.Replace(r.path), token: token, header: r.header, body: body, hostile: r.status >= 400 || strings.HasPrefix(r.name, "odd: ")})
			if a.StatusCode != r.status {
				t.Errorf("status %d, want %d: %s", a.StatusCode, r.status, a.body)
			}
			for _, want := range r.has {
				if !strings.Contains(string(a.body), fill.Replace(want)) {
					t.Errorf("the response does not contain %s:\n%s", want, a.body)
				}
			}
			for _, unwanted := range r.hasNot {
				if strings.Contains(string(a.body), fill.Replace(unwanted)) {
					t.Errorf("the response contains %s:\n%s", unwanted, a.body)
				}
			}
		})
	}
}

// fixture creates resources of each kind. It returns their IDs and some tokens as words
// for run.
func (w *world) fixture() map[string]string {
	w.Helper()
	agent := w.newAgent("reviewer")
	done := w.newRun("reviewer", "done")
	j := w.claim()
	j.write("one\n", "two\n")
	j.finish(stint.Completed)
	var volume, artifact stint.FileSet
	w.post("/v1/volumes", map[string]any{"name": "data"}, http.StatusCreated, &volume)
	w.post("/v1/artifacts", map[string]any{"name": "out"}, http.StatusCreated, &artifact)
	var version stint.FileSetVersion
	w.decode(w.do(request{method: "POST", path: "/v1/volumes/" + volume.ID + "/versions", body: archive(w, map[string]string{"a.txt": "hello"})}), http.StatusCreated, &version)
	run := w.newRun("reviewer", "pending")
	other := w.login("blue", "bob")
	var detail stint.Run
	w.get("/v1/runs/"+done.ID, &detail)
	return map[string]string{
		"agent": agent.ID, "agentVersion": agent.CurrentVersionID, "done": done.ID, "run": run.ID, "session": run.SessionID,
		"volume": volume.ID, "artifact": artifact.ID, "version": version.ID, "checkpoint": *detail.CheckpointID,
		"other": other, "reader": w.tokenWithScope("read"), "writer": w.tokenWithScope("write"), "token": w.caller.TokenID,
		"none": "01jz8w1k2m4n6p8q0r2s4t6v8w",
	}
}

func TestAccess(t *testing.T) {
	w := newWorld(t)
	words := w.fixture()
	words["good"] = w.token
	bearer := func(value string) map[string]string { return map[string]string{"Authorization": value} }
	words["flipped"] = w.token[:len(w.token)-1] + map[bool]string{true: "0", false: "1"}[w.token[len(w.token)-1] != '0']
	w.run(t, words, []row{
		{"no token", "GET", "/v1/runs", "-", nil, nil, 401, []string{badKey}, nil},
		{"unknown token", "GET", "/v1/runs", "flipped", nil, nil, 401, []string{badKey}, nil},
		{"malformed token", "GET", "/v1/runs", "x", nil, nil, 401, []string{badKey}, nil},
		{"another scheme", "GET", "/v1/runs", "-", bearer("Basic " + w.token), nil, 401, []string{badKey}, nil},
		{"no scheme", "GET", "/v1/runs", "-", bearer(w.token), nil, 401, []string{badKey}, nil},
		{"scheme alone", "GET", "/v1/runs", "-", bearer("Bearer"), nil, 401, []string{badKey}, nil},
		{"two spaces", "GET", "/v1/runs", "-", bearer("Bearer  " + w.token), nil, 401, []string{badKey}, nil},
		{"token in the query", "GET", "/v1/runs?access_token={good}", "-", nil, nil, 401, []string{badKey}, nil},
		{"token in the query of a stream", "GET", "/v1/runs/{run}/events?access_token={good}", "-", nil, nil, 401, []string{badKey}, nil},
		{"before the method", "PATCH", "/v1/runs", "-", nil, nil, 401, []string{badKey}, nil},
		{"a reader reads", "GET", "/v1/runs", "reader", nil, nil, 200, nil, nil},
		{"a reader creates", "POST", "/v1/runs", "reader", nil, `{"agent":"reviewer","prompt":"x"}`, 403, []string{scope, "write"}, nil},
		{"a reader cancels", "POST", "/v1/runs/{run}/cancel", "reader", nil, nil, 403, []string{scope}, nil},
		{"a reader deletes", "DELETE", "/v1/volumes/{volume}", "reader", nil, nil, 403, []string{scope}, nil},
		{"a reader pushes", "POST", "/v1/volumes/{volume}/versions", "reader", nil, []byte("x"), 403, []string{scope}, nil},
		{"a writer lists tokens", "GET", "/v1/tokens", "writer", nil, nil, 403, []string{scope, "admin"}, nil},
		{"a writer creates a token", "POST", "/v1/tokens", "writer", nil, `{"name":"x"}`, 403, []string{scope}, nil},
		{"a writer reads another token", "GET", "/v1/tokens/{token}", "writer", nil, nil, 403, []string{scope}, nil},
		{"a writer revokes another token", "DELETE", "/v1/tokens/{token}", "writer", nil, nil, 403, []string{scope}, nil},
		{"a writer lists secrets", "GET", "/v1/secrets", "writer", nil, nil, 403, []string{scope}, nil},
		{"a writer puts a secret", "PUT", "/v1/secrets/A", "writer", nil, `{"value":"x"}`, 403, []string{scope}, nil},
		{"me", "GET", "/v1/me", "", nil, nil, 200, []string{`"organization":{"id":"org_`, `"name":"` + ownOrg + `"`, `"name":"ann"`, `"id":"{token}"`, `"scopes":["read","write","admin"]`}, []string{w.token}},
		{"frameworks", "GET", "/v1/frameworks", "reader", nil, nil, 200, []string{`{"data":[{"name":"shell","available":true,"version":null,"capabilities":{"model":false,`, `"name":"codex","available":false,"reason":"The framework 'codex' needs`}, nil},
		{"frameworks without a token", "GET", "/v1/frameworks", "-", nil, nil, 401, []string{badKey}, nil},
		{"frameworks are read only", "POST", "/v1/frameworks", "", nil, "{}", 405, []string{`"code":"method_not_allowed"`}, nil},
		{"me with the scope read", "GET", "/v1/me", "reader", nil, nil, 200, []string{`"scopes":["read"]`}, nil},
		{"a reader creates a stream token", "POST", "/v1/runs/{run}/stream-token", "reader", nil, nil, 201, []string{`"token":"`}, nil},
	})
}

// TestBodyOfUnauthorized checks that every 401 has the same body.
func TestBodyOfUnauthorized(t *testing.T) {
	w := newWorld(t)
	expired := w.token
	revoked := w.tokenWithScope("read")
	c, err := w.auth.Authenticate(t.Context(), revoked)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.auth.RevokeToken(t.Context(), c, c.TokenID); err != nil {
		t.Fatal(err)
	}
	bodies := map[string]bool{}
	send := func(token string) {
		t.Helper()
		a := w.do(request{method: "GET", path: "/v1/runs", token: token, hostile: true})
		if a.StatusCode != http.StatusUnauthorized || a.Header.Get("WWW-Authenticate") != "Bearer" {
			t.Errorf("status %d, challenge %q", a.StatusCode, a.Header.Get("WWW-Authenticate"))
		}
		bodies[string(a.body)] = true
	}
	send("-")
	send("malformed")
	send("stint_live_" + strings.Repeat("0", 64))
	send(revoked)
	w.pass(91 * 24 * 60 * 60 * 1e9)
	send(expired)
	if len(bodies) != 1 {
		t.Errorf("%d bodies: %v", len(bodies), bodies)
	}
}

// TestUnknownIDs checks that every operation returns 404 with the requested ID if the
// ID does not belong to the caller's organisation.
func TestUnknownIDs(t *testing.T) {
	w := newWorld(t)
	words := w.fixture()
	kinds := map[string][]verb{
		"run": {
			{"GET", "/v1/runs/%", nil},
			{"PATCH", "/v1/runs/%", `{"metadata":{}}`},
			{"POST", "/v1/runs/%/cancel", nil},
			{"GET", "/v1/runs/%/events", nil},
			{"POST", "/v1/runs/%/stream-token", nil},
			{"GET", "/v1/runs/%/logs", nil},
			{"GET", "/v1/runs/%/metrics", nil},
		},
		"session":    {{"GET", "/v1/sessions/%", nil}},
		"checkpoint": {{"GET", "/v1/checkpoints/%", nil}},
		"agent": {
			{"GET", "/v1/agents/%", nil},
			{"DELETE", "/v1/agents/%", nil},
			{"GET", "/v1/agents/%/versions", nil},
			{"POST", "/v1/agents/%/versions", `{"framework":"shell"}`},
			{"GET", "/v1/agents/%/versions/1", nil},
		},
		"volume": fileSetVerbs("volumes"), "artifact": fileSetVerbs("artifacts"),
		"token": {{"GET", "/v1/tokens/%", nil}, {"DELETE", "/v1/tokens/%", nil}},
	}
	var rows []row
	for noun, verbs := range kinds {
		foreign := words[noun]
		prefix, _, _ := strings.Cut(foreign, "_")
		for _, v := range verbs {
			add := func(name, token, id string) {
				rows = append(rows, row{
					name + " " + v.method + " " + v.path, v.method, strings.ReplaceAll(v.path, "%", id), token, nil, v.body, 404,
					[]string{notFound, id},
					[]string{ownOrg},
				})
			}
			add("another organisation's", "other", foreign)
			add("an unknown", "", prefix+"_"+words["none"])
			add("a malformed", "", "x")
			if noun != "run" {
				add("another kind's", "", words["run"])
			} else {
				add("another kind's", "", words["agent"])
			}
		}
	}
	w.run(t, words, rows)
}

// verb is an operation on a resource. The ID of the resource replaces % in its path.
type verb struct {
	method, path string
	body         any
}

func fileSetVerbs(noun string) []verb {
	at := "/v1/" + noun + "/%"
	return []verb{
		{"GET", at, nil},
		{"DELETE", at, nil},
		{"GET", at + "/download", nil},
		{"GET", at + "/versions", nil},
		{"POST", at + "/versions", []byte("no tar")},
		{"GET", at + "/versions/latest", nil},
		{"GET", at + "/versions/1/files", nil},
		{"GET", at + "/versions/1/files/a.txt", nil},
		{"GET", at + "/diff?from=1", nil},
	}
}

func TestCreateRun(t *testing.T) {
	w := newWorld(t)
	words := w.fixture()
	w.newAgent("another")
	post := func(name, body string, status int, has ...string) row {
		return row{name, "POST", "/v1/runs", "", nil, body, status, has, nil}
	}
	w.run(t, words, []row{
		{
			"by name", "POST", "/v1/runs", "", nil, `{"agent":"reviewer","prompt":"x"}`, 202,
			[]string{
				`"status":"pending"`, `"id":"run_`, `"agentId":"{agent}"`, `"agentName":"reviewer"`, `"error":null`, `"executionTimeMs":null`, `"checkpointId":null`,
				`"sessionId":"sess_`, `"artifactName":null`, `"artifactVersion":null`, `"startedAt":null`, `"completedAt":null`, `"metadata":{}`,
			},
			[]string{`"volumes"`},
		},
		post("by identifier", `{"agentId":"{agent}","prompt":"x"}`, 202, `"agentId":"{agent}"`),
		post("both, agreeing", `{"agentId":"{agent}","agent":"reviewer","prompt":"x"}`, 202),
		post("of a session", `{"sessionId":"{session}","agentId":"{agent}","prompt":"x"}`, 202, `"sessionId":"{session}"`),
		post("of a checkpoint", `{"checkpointId":"{checkpoint}","prompt":"x"}`, 202, `"parentRunId":"{done}"`),
		post("unknown members are ignored", `{"agent":"reviewer","prompt":"x","Prompt":7,"more":{"a":[1]}}`, 202, `"prompt":"x"`),
		post("odd: null members are ignored", `{"agent":"reviewer","agentId":null,"prompt":"x","variables":null,"priority":null,"limits":null}`, 202),
		post("everything", `{"agent":"reviewer","agentVersion":"v1","prompt":"x","variables":{"A":"1"},"secrets":{"S":"hush"},"volumes":{},"metadata":{"k":"v"},"timeout":"90s","priority":9,"limits":{"outputBytes":"1MiB"}}`, 202, `"metadata":{"k":"v"}`),
		post("supported value of onBusy", `{"agent":"reviewer","prompt":"x","onBusy":"enqueue","webhook":null,"startAt":null,"permissions":null}`, 202),
		post("model of an agent without one", `{"agent":"reviewer","prompt":"x","model":"large-2"}`, 400, invalid, `"param":"model"`, "has no effect"),
		post("cost limit of an agent without prices", `{"agent":"reviewer","prompt":"x","limits":{"maxCostUsd":1}}`, 400, invalid, `"param":"limits.maxCostUsd"`, "does not report costs"),
		post("model of a wrong type", `{"agent":"reviewer","prompt":"x","model":7}`, 400, invalid, `"param":"model"`),
		post("webhook", `{"agent":"reviewer","prompt":"x","webhook":{"url":"https://example.com"}}`, 400, invalid, `"param":"webhook"`, "not supported by this version"),
		post("startAt", `{"agent":"reviewer","prompt":"x","startAt":"2030-01-01T00:00:00.000Z"}`, 400, invalid, `"param":"startAt"`, "not supported by this version"),
		post("permissions", `{"agent":"reviewer","prompt":"x","permissions":{"mode":"ask"}}`, 400, invalid, `"param":"permissions"`, "not supported by this version"),
		post("unsupported value of onBusy", `{"agent":"reviewer","prompt":"x","onBusy":"reject"}`, 400, invalid, `"param":"onBusy"`, "not supported by this version"),
		post("unknown value of onBusy", `{"agent":"reviewer","prompt":"x","onBusy":"wait"}`, 400, invalid, `"param":"onBusy"`, "enqueue, reject, interrupt, rollback"),
		post("onBusy of a wrong type", `{"agent":"reviewer","prompt":"x","onBusy":["enqueue"]}`, 400, invalid, `"param":"onBusy"`),
		post("empty onBusy", `{"agent":"reviewer","prompt":"x","onBusy":""}`, 400, invalid, `"param":"onBusy"`),
		post("webhook of a wrong type", `{"agent":"reviewer","prompt":"x","webhook":"https://example.com"}`, 400, invalid, `"param":"webhook"`, "not supported by this version"),
		post("several unsupported members", `{"agent":"reviewer","prompt":"x","webhook":{},"startAt":1}`, 400, invalid, `"param":"webhook"`, `"param":"startAt"`, `"details"`),
		post("a secret of a wrong type", `{"agent":"reviewer","prompt":"x","secrets":{"A":12345678}}`, 400, invalid, `"param":"secrets.A"`, "a string, not a number"),
		post("nothing", `{}`, 400, missing, `"param":"agent"`, `"param":"prompt"`, `"details"`),
		post("no agent", `{"prompt":"x"}`, 400, missing, `"param":"agent"`),
		post("no prompt", `{"agent":"reviewer"}`, 400, missing, `"param":"prompt"`),
		post("the prompt in another case", `{"agent":"reviewer","Prompt":"x"}`, 400, missing, `"param":"prompt"`),
		post("contradiction", `{"agentId":"{agent}","agent":"another","prompt":"x"}`, 400, invalid, "'agent'", "'agentId'"),
		post("unknown name", `{"agent":"nobody","prompt":"x"}`, 404, notFound, "nobody"),
		post("unknown identifier", `{"agentId":"ag_{none}","prompt":"x"}`, 404, notFound, "ag_{none}"),
		post("unknown session", `{"sessionId":"sess_{none}","prompt":"x"}`, 404, notFound, "sess_{none}"),
		post("unknown checkpoint", `{"checkpointId":"x","prompt":"x"}`, 404, notFound, "'x'"),
		post("unknown volume", `{"agent":"reviewer","prompt":"x","volumes":{"nope":"latest"}}`, 404, notFound, "nope"),
		post("unknown agent version", `{"agent":"reviewer","agentVersion":"v7","prompt":"x"}`, 404, notFound, "v7"),
		post("prompt of a wrong type", `{"agent":"reviewer","prompt":7}`, 400, invalid, `"param":"prompt"`, "a string"),
		post("several of a wrong type", `{"agent":[],"prompt":{},"priority":"high"}`, 400, `"param":"agent"`, `"param":"prompt"`, `"param":"priority"`, `"details"`),
		post("a variable of a wrong type", `{"agent":"reviewer","prompt":"x","variables":{"A":1}}`, 400, invalid, `"param":"variables.A"`),
		post("a variable that is null", `{"agent":"reviewer","prompt":"x","variables":{"A":null}}`, 400, invalid, `"param":"variables.A"`),
		post("variables of a wrong type", `{"agent":"reviewer","prompt":"x","variables":[]}`, 400, invalid, `"param":"variables"`, "an object"),
		post("a fraction", `{"agent":"reviewer","prompt":"x","priority":1.5}`, 400, invalid, `"param":"priority"`, "a whole number"),
		post("a limit of a wrong type", `{"agent":"reviewer","prompt":"x","limits":{"outputBytes":"much"}}`, 400, invalid, `"param":"limits.outputBytes"`),
		post("a reserved variable", `{"agent":"reviewer","prompt":"x","variables":{"LD_PRELOAD":"x"}}`, 400, invalid, `"param":"variables.LD_PRELOAD"`),
	})
}

func TestJSONBodies(t *testing.T) {
	w := newWorld(t)
	deep := strings.Repeat(`{"a":`, 64)
	text := func(v string) map[string]string { return map[string]string{"Content-Type": v} }
	at := func(name string, header map[string]string, body any, status int, has ...string) row {
		return row{name, "POST", "/v1/volumes", "", header, body, status, has, nil}
	}
	w.run(t, nil, []row{
		at("json", nil, `{"name":"a"}`, 201),
		at("json with a charset", text("application/json; charset=UTF-8"), `{"name":"b"}`, 201),
		at("white space around", nil, " \n{\"name\" : \"c\"}\t\n", 201),
		at("another charset", text("application/json; charset=latin1"), `{"name":"d"}`, 415, media),
		at("text", text("text/plain"), `{"name":"d"}`, 415, media),
		at("no type", text(""), `{"name":"d"}`, 415, media),
		at("form", text("application/x-www-form-urlencoded"), `name=d`, 415, media),
		at("compressed", map[string]string{"Content-Encoding": "gzip"}, `{"name":"d"}`, 415, media),
		at("empty", nil, ``, 400, missing, `"param":"body"`),
		at("white space", nil, "  \n", 400, missing),
		at("no body and no type", nil, nil, 400, missing),
		at("list", nil, `[]`, 400, invalid, "object"),
		at("null", nil, `null`, 400, invalid, "object"),
		at("string", nil, `"name"`, 400, invalid, "object"),
		at("cut short", nil, `{"name":"d"`, 400, invalid),
		at("trailing object", nil, `{"name":"d"}{}`, 400, invalid),
		at("trailing text", nil, `{"name":"d"} x`, 400, invalid),
		at("trailing comma", nil, `{"name":"d",}`, 400, invalid),
		at("key twice", nil, `{"name":"d","name":"d"}`, 400, invalid, "twice", `"param":"name"`),
		at("key twice, spelled differently", nil, `{"name":"d","n\u0061me":"d"}`, 400, invalid, "twice"),
		at("key twice, deep", nil, `{"name":"d","x":[{"y":{"z":1,"z":2}}]}`, 400, invalid, "twice", `"param":"z"`),
		at("the same key in several objects", nil, `{"name":"e","x":[{"name":1},{"name":{"name":2}}]}`, 201),
		at("a key that is a value too", nil, `{"name":"f","x":["name","name"]}`, 201),
		at("a comment", nil, `{"name":"d"/**/}`, 400, invalid),
		at("not a number", nil, `{"name":NaN}`, 400, invalid),
		at("invalid UTF-8", nil, "{\"name\":\"d\xff\"}", 400, invalid, "UTF-8"),
		at("64 levels", nil, `{"name":"g","x":`+strings.Repeat("[", 63)+strings.Repeat("]", 63)+"}", 201),
		at("65 levels", nil, `{"name":"d","x":`+strings.Repeat("[", 64)+strings.Repeat("]", 64)+"}", 400, invalid, "nested"),
		at("deep and open", nil, deep, 400, invalid),
		at("very deep", nil, strings.Repeat("[", 100_000), 400, invalid),
		at("a megabyte", nil, `{"name":"h","x":"`+strings.Repeat("x", 1<<20-20)+`"}`, 201),
		at("more than a megabyte", nil, `{"name":"d","x":"`+strings.Repeat("x", 1<<20)+`"}`, 413, `"code":"request_too_large"`),
		at("wrong type", nil, `{"name":7}`, 400, invalid, `"param":"name"`),
		at("wrong name", nil, `{"name":"Data Set"}`, 400, invalid, `"param":"name"`),
		at("no name", nil, `{}`, 400, missing, `"param":"name"`),
		at("taken", nil, `{"name":"a"}`, 409, exists, `"param":"name"`),
	})
}

func TestAgents(t *testing.T) {
	w := newWorld(t)
	words := w.fixture()
	w.run(t, words, []row{
		{"taken", "POST", "/v1/agents", "", nil, `{"name":"reviewer","framework":"shell"}`, 409, []string{exists}, nil},
		{"unknown key", "POST", "/v1/agents", "", nil, `{"name":"x","framework":"shell","network":{"mod":"none"}}`, 400, []string{invalid, `"param":"network.mod"`}, nil},
		{"warnings", "POST", "/v1/agents", "", nil, `{"name":"warned","framework":"shell","model":"${{ vars.M }}"}`, 201, []string{`"warnings":[{"param":"model","message":"References are not replaced`}, nil},
		{"secrets that are not stored", "POST", "/v1/agents", "", nil, `{"name":"keys","framework":"shell","secrets":{"A":{}},"environment":{"E":"${{ secrets.B }}"}}`, 201, []string{
			`"warnings":[{"param":"secrets.A","message":"No secret named 'A' is stored. Store it with 'stint secret set A' before a run needs it, or give it with each run."},{"param":"environment.E","message":"No secret named 'B'`,
		}, nil},
		{"store one", "PUT", "/v1/secrets/A", "", nil, `{"value":"stored value"}`, 201, nil, nil},
		{"a secret that is stored", "POST", "/v1/agents", "", nil, `{"name":"stored","framework":"shell","secrets":{"A":{}}}`, 201, nil, []string{"warnings"}},
		{"all faults at once", "POST", "/v1/agents", "", nil, `{"name":"X_","framework":"shell","timout":1,"mcpServers":{"a":{"command":["x"]}}}`, 400, []string{invalid, `"param":"name"`, `"param":"timout"`, "Did you mean 'timeout'?", `"param":"mcpServers"`}, nil},
		{"no name and more", "POST", "/v1/agents", "", nil, `{"framework":"shell","timeout":7}`, 400, []string{`"param":"name"`, `"param":"timeout"`}, nil},
		{"key twice", "POST", "/v1/agents", "", nil, `{"name":"x","framework":"shell","framework":"shell"}`, 400, []string{invalid, "twice"}, nil},
		{"the same again", "POST", "/v1/agents/{agent}/versions", "", nil, `{"framework":"shell"}`, 200, []string{`"id":"{agentVersion}"`, `"versionNumber":1`}, []string{"definition"}},
		{"another", "POST", "/v1/agents/{agent}/versions", "", nil, `{"framework":"assistant"}`, 201, []string{`"versionNumber":2`}, nil},
		{"the first", "GET", "/v1/agents/{agent}/versions/v1", "", nil, nil, 200, []string{`"definition":{"framework":"shell","name":"reviewer"}`}, nil},
		{"the latest", "GET", "/v1/agents/{agent}/versions/latest", "", nil, nil, 200, []string{`"framework":"assistant"`}, nil},
		{"versions", "GET", "/v1/agents/{agent}/versions", "", nil, nil, 200, []string{`"versionNumber":2`, `"versionNumber":1`}, []string{"definition"}},
		{"by name", "GET", "/v1/agents?name=REVIEWER", "", nil, nil, 200, []string{`"id":"{agent}"`}, nil},
		{"by another name", "GET", "/v1/agents?name=review", "", nil, nil, 200, []string{`"data":[]`, `"hasMore":false`, `"nextCursor":null`}, nil},
		{"read", "GET", "/v1/agents/{agent}", "", nil, nil, 200, []string{`"name":"reviewer"`}, nil},
		{"delete", "DELETE", "/v1/agents/{agent}", "", nil, nil, 204, nil, nil},
		{"deleted", "GET", "/v1/agents/{agent}", "", nil, nil, 404, []string{notFound}, nil},
		{"its run is kept", "GET", "/v1/runs/{done}", "", nil, nil, 200, []string{`"agentName":"reviewer"`}, nil},
	})
}

func TestRunStates(t *testing.T) {
	w := newWorld(t)
	words := w.fixture()
	w.run(t, words, []row{
		{"read", "GET", "/v1/runs/{done}", "", nil, nil, 200, []string{`"status":"completed"`, `"volumes":{}`, `"executionTimeMs":12`, `"checkpointId":"{checkpoint}"`}, nil},
		{"cancel of a completed", "POST", "/v1/runs/{done}/cancel", "", nil, nil, 400, []string{state, "completed"}, nil},
		{"cancel", "POST", "/v1/runs/{run}/cancel", "", nil, nil, 200, []string{`"status":"cancelled"`, `"statusReason":"cancelled_by_user"`}, nil},
		{"cancel again", "POST", "/v1/runs/{run}/cancel", "", nil, nil, 400, []string{state, "cancelled"}, nil},
		{"it stays cancelled", "GET", "/v1/runs/{run}", "", nil, nil, 200, []string{`"status":"cancelled"`}, nil},
		{"metrics", "GET", "/v1/runs/{done}/metrics", "", nil, nil, 200, []string{`"data":[]`, `"totalDurationMs":12`}, nil},
		{"session", "GET", "/v1/sessions/{session}", "", nil, nil, 200, []string{`"lastRunId":"{run}"`}, nil},
		{"sessions", "GET", "/v1/sessions", "", nil, nil, 200, []string{`"id":"{session}"`}, nil},
		{"checkpoint", "GET", "/v1/checkpoints/{checkpoint}", "", nil, nil, 200, []string{`"runId":"{done}"`, `"secretNames":[]`}, nil},
	})
}

func TestTokensAndSecrets(t *testing.T) {
	w := newWorld(t)
	words := w.fixture()
	words["inAnHour"] = stint.TimeOf(w.now().Add(time.Hour)).String()
	w.run(t, words, []row{
		{"create", "POST", "/v1/tokens", "", nil, `{"name":"ci","expiresInDays":1,"scopes":["read"]}`, 201, []string{`"token":"stint_live_`, `"scopes":["read"]`, `"lastUsedAt":null`}, nil},
		{"list", "GET", "/v1/tokens", "", nil, nil, 200, []string{`"name":"ci"`, `"tokenPrefix":"stint_live_`}, []string{`"token":`}},
		{"no name", "POST", "/v1/tokens", "", nil, `{}`, 400, []string{missing, `"param":"name"`}, nil},
		{"too long", "POST", "/v1/tokens", "", nil, `{"name":"ci","expiresInDays":366}`, 400, []string{invalid, `"param":"expiresInDays"`}, nil},
		{"expiresAt", "POST", "/v1/tokens", "", nil, `{"name":"ci","expiresAt":"{inAnHour}"}`, 201, []string{`"expiresAt":"{inAnHour}"`}, nil},
		{"expiresAt and expiresInDays", "POST", "/v1/tokens", "", nil, `{"name":"ci","expiresAt":"{inAnHour}","expiresInDays":1}`, 400, []string{invalid, `"param":"expiresAt"`}, nil},
		{"expiresAt in the past", "POST", "/v1/tokens", "", nil, `{"name":"ci","expiresAt":"2020-01-01T00:00:00Z"}`, 400, []string{invalid, `"param":"expiresAt"`}, nil},
		{"expiresAt of another form", "POST", "/v1/tokens", "", nil, `{"name":"ci","expiresAt":"tomorrow"}`, 400, []string{invalid, `"param":"expiresAt"`, "not 'tomorrow'"}, nil},
		{"scopes misspelled", "POST", "/v1/tokens", "", nil, `{"name":"ci","scope":["read"]}`, 400, []string{invalid, `"param":"scope"`, "Did you mean 'scopes'?"}, nil},
		{"expiry misspelled", "POST", "/v1/tokens", "", nil, `{"name":"ci","expiresInDay":1}`, 400, []string{invalid, `"param":"expiresInDay"`, "Did you mean 'expiresInDays'?"}, nil},
		{"unknown members are ignored", "POST", "/v1/tokens", "", nil, `{"name":"ci","note":"x"}`, 201, nil, nil},
		{"days as text", "POST", "/v1/tokens", "", nil, `{"name":"ci","expiresInDays":"30"}`, 400, []string{invalid, `"param":"expiresInDays"`}, nil},
		{"no scopes", "POST", "/v1/tokens", "", nil, `{"name":"ci","scopes":[]}`, 400, []string{invalid, `"param":"scopes"`}, nil},
		{"unknown scope", "POST", "/v1/tokens", "", nil, `{"name":"ci","scopes":["root"]}`, 400, []string{invalid, `"param":"scopes[0]"`}, nil},
		{"read", "GET", "/v1/tokens/{token}", "", nil, nil, 200, []string{`"id":"{token}"`}, nil},

		{"put", "PUT", "/v1/secrets/API_KEY", "", nil, `{"value":"hush"}`, 201, []string{`"name":"API_KEY"`}, []string{"hush"}},
		{"put again", "PUT", "/v1/secrets/API_KEY", "", nil, `{"value":"hush!"}`, 200, nil, []string{"hush"}},
		{"put another", "PUT", "/v1/secrets/B", "", nil, `{"value":"hush"}`, 201, nil, nil},
		{"bad name", "PUT", "/v1/secrets/1A", "", nil, `{"value":"hush"}`, 400, []string{invalid, `"param":"name"`}, []string{"hush"}},
		{"hosts misspelled", "PUT", "/v1/secrets/A", "", nil, `{"value":"hush","host":["example.com"]}`, 400, []string{invalid, `"param":"host"`, "Did you mean 'hosts'?"}, []string{"hush"}},
		{"agents misspelled", "PUT", "/v1/secrets/A", "", nil, `{"value":"hush","Agents":["reviewer"]}`, 400, []string{invalid, `"param":"Agents"`, "Did you mean 'agents'?"}, []string{"hush"}},
		{"no value", "PUT", "/v1/secrets/A", "", nil, `{}`, 400, []string{missing, `"param":"value"`}, nil},
		{"secrets", "GET", "/v1/secrets?limit=1", "", nil, nil, 200, []string{`"name":"API_KEY"`, `"hasMore":true`}, []string{"hush", `"B"`}},
		{"delete", "DELETE", "/v1/secrets/API_KEY", "", nil, nil, 204, nil, nil},
		{"delete again", "DELETE", "/v1/secrets/API_KEY", "", nil, nil, 404, []string{notFound}, nil},
	})
}

func TestPaths(t *testing.T) {
	w := newWorld(t)
	words := w.fixture()
	notFoundAt := func(path string) row {
		return row{path, "GET", path, "", nil, nil, 404, []string{notFound}, []string{"<a href"}}
	}
	w.run(t, words, []row{
		{"/ as JSON", "GET", "/", "-", map[string]string{"Accept": "application/json"}, nil, 404, []string{notFound}, nil},
		notFoundAt("/v1"), notFoundAt("/v1/"), notFoundAt("/v2/runs"), notFoundAt("/v1/runs/"), notFoundAt("//v1/runs"), notFoundAt("/v1//runs"), notFoundAt("/v1/./runs"), notFoundAt("/v1/runs/../agents"),
		notFoundAt("/v1/runs/{run}/"), notFoundAt("/v1/runs/{run}/nothing"), notFoundAt("/favicon.ico"), notFoundAt("/v1/volumes/{volume}/versions/1/files/../../x"),
		notFoundAt("/v1/volumes/{volume}/versions/1/files/%2e%2e/a.txt"), notFoundAt("/v1/volumes/{volume}/versions/1/files/a.txt/b"),
		notFoundAt("/v1/volumes/{volume}/versions/1/files/nothing"), notFoundAt("/v1/volumes/{volume}/versions/1/files/"), notFoundAt("/v1/volumes/{volume}/versions/9"),
		notFoundAt("/v1/artifacts/{artifact}/download"), notFoundAt("/v1/volumes/{volume}/download?versionId=v2"), notFoundAt("/v1/volumes/{volume}/download?versionId="),
	})
	for path, allow := range map[string]string{
		"/v1/runs": "GET, HEAD, POST", "/v1/runs/" + words["run"]: "GET, HEAD, PATCH", "/v1/runs/" + words["run"] + "/cancel": "POST",
		"/v1/secrets/A": "DELETE, GET, HEAD, PUT", "/healthz": "GET, HEAD",
	} {
		for _, method := range []string{"PATCH", "OPTIONS", "DELETE", "get", "NONSENSE-OF-A-METHOD"} {
			if strings.Contains(allow, method) {
				continue
			}
			a := w.do(request{method: method, path: path, hostile: true})
			if a.StatusCode != http.StatusMethodNotAllowed || a.Header.Get("Allow") != allow || a.errorOf() != "invalid_request_error method_not_allowed" {
				t.Errorf("%s %s returned %d, Allow %q, %s", method, path, a.StatusCode, a.Header.Get("Allow"), a.body)
			}
		}
	}
}
