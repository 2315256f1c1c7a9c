package api_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/masking"
	"github.com/stint-dev/stint/internal/store"
)

func (w *world) putSecret(name, value string) response {
	w.Helper()
	return w.do(request{method: "PUT", path: "/v1/secrets/" + name, body: map[string]string{"value": value}})
}

// TestMaximumNumberOfSecrets checks that an organisation cannot store more secrets than
// a run can mask.
func TestMaximumNumberOfSecrets(t *testing.T) {
	w := newWorld(t)
	for i := range masking.MaxValues {
		if a := w.putSecret(fmt.Sprintf("S%d", i), "value"); a.StatusCode != http.StatusCreated {
			t.Fatalf("secret %d returned %d %s", i, a.StatusCode, a.body)
		}
	}
	if a := w.putSecret("MORE", "value"); a.errorOf() != "invalid_request_error invalid_state" || !strings.Contains(string(a.body), "Delete") {
		t.Errorf("one more returned %d %s", a.StatusCode, a.body)
	}
	if a := w.putSecret("S0", "another"); a.StatusCode != http.StatusOK {
		t.Errorf("replacing one returned %d %s", a.StatusCode, a.body)
	}
	if a := w.do(request{method: "DELETE", path: "/v1/secrets/S0"}); a.StatusCode != http.StatusNoContent {
		t.Fatal(a.StatusCode)
	}
	if a := w.putSecret("MORE", "value"); a.StatusCode != http.StatusCreated {
		t.Errorf("after a deletion, one more returned %d %s", a.StatusCode, a.body)
	}
}

func TestMaximumSizeOfSecrets(t *testing.T) {
	w := newWorld(t)
	half := strings.Repeat("x", masking.MaxTotalSize/2)
	for _, c := range []struct {
		name, value string
		want        string
	}{
		{"A", half + half, "201"},
		{"B", "1", "400 invalid_request_error invalid_state"},
		{"A", half, "200"},
		{"B", half, "201"},
		{"A", half + "1", "400 invalid_request_error invalid_state"},
		{"A", half[1:], "200"},
		{"C", "1", "201"},
		{"D", half + half + "1", "400 invalid_request_error invalid_parameter"},
	} {
		a := w.putSecret(c.name, c.value)
		got := fmt.Sprint(a.StatusCode)
		if a.StatusCode >= 400 {
			got += " " + a.errorOf()
		}
		w.diff(fmt.Sprintf("%s of %d bytes", c.name, len(c.value)), c.want, got)
	}
}

// TestTooManySecretsForRun checks that the assignment of a run fails if the run's own
// secrets and the stored secrets together are too large to be masked.
func TestTooManySecretsForRun(t *testing.T) {
	w := newWorld(t)
	w.post("/v1/agents", map[string]any{"name": "reviewer", "framework": "shell", "secrets": map[string]any{"STORED": map[string]any{}}}, http.StatusCreated, &stint.Agent{})
	large := strings.Repeat("x", masking.MaxTotalSize)
	w.putSecret("STORED", large)
	w.post("/v1/runs", map[string]any{"agent": "reviewer", "prompt": "x", "secrets": map[string]string{"GIVEN": "y"}}, http.StatusAccepted, &stint.Run{})
	a := w.assigned()
	if stint.KindOf(a.Err) != stint.KindInvalid || len(a.Stored) != 0 || !strings.Contains(fmt.Sprint(a.Err), "Remove some") {
		t.Errorf("the assignment has %d stored secrets and %v", len(a.Stored), a.Err)
	}
	w.post("/v1/runs", map[string]any{"agent": "reviewer", "prompt": "x"}, http.StatusAccepted, &stint.Run{})
	if a := w.assigned(); a.Err != nil || a.Stored["STORED"] != large {
		t.Errorf("only the stored secret: %d, %v", len(a.Stored), a.Err)
	}
}

type object = map[string]any

// pushes sends a definition and checks the status and, for an error, its code and parameter.
func (w *world) pushes(token, name string, d object, status int, want string) {
	w.Helper()
	body := object{"name": name, "framework": "shell"}
	maps.Copy(body, d)
	path := "/v1/agents"
	agent, err := w.store.AgentByName(w.Context(), w.caller.OrgID, name)
	switch {
	case err == nil:
		path += "/" + agent.ID + "/versions"
	case !errors.Is(err, store.ErrNotFound):
		w.Fatal(err)
	}
	a := w.do(request{method: "POST", path: path, token: token, body: body})
	got := ""
	if a.StatusCode >= 400 {
		var e struct{ Error struct{ Code, Param string } }
		if err := json.Unmarshal(a.body, &e); err != nil {
			w.Fatal(err)
		}
		got = e.Error.Code + " " + e.Error.Param
	}
	if a.StatusCode != status || got != want {
		w.Errorf("pushing %v returned %d %s, want %d %s: %s", d, a.StatusCode, got, status, want, a.body)
	}
}

func (w *world) putLimited(name string, body object) {
	w.Helper()
	if body["value"] == nil {
		body["value"] = "value of " + name
	}
	if a := w.do(request{method: "PUT", path: "/v1/secrets/" + name, body: body}); a.StatusCode >= 300 {
		w.Fatalf("%d %s", a.StatusCode, a.body)
	}
}

func hosts(list ...string) object { return object{"hosts": list} }

func TestSecretLimits(t *testing.T) {
	w := newWorld(t)
	get := func(want stint.Secret) {
		t.Helper()
		a := w.do(request{method: "GET", path: "/v1/secrets/KEY"})
		var got stint.Secret
		if err := json.Unmarshal(a.body, &got); err != nil || a.StatusCode != http.StatusOK || strings.Contains(string(a.body), "value of") {
			t.Fatalf("%d %s, %v", a.StatusCode, a.body, err)
		}
		want.Name, want.CreatedAt, want.UpdatedAt = "KEY", got.CreatedAt, got.UpdatedAt
		w.diff("secret", want, got)
	}
	if a := w.do(request{method: "GET", path: "/v1/secrets/KEY", hostile: true}); a.StatusCode != http.StatusNotFound {
		t.Errorf("an unknown secret returned %d", a.StatusCode)
	}
	w.putLimited("KEY", object{"hosts": []string{"api.example.com"}, "agents": []string{"reviewer", "writer"}})
	get(stint.Secret{Hosts: []string{"api.example.com"}, Agents: []string{"reviewer", "writer"}})
	w.putLimited("KEY", object{}) // another value; the limits are kept
	get(stint.Secret{Hosts: []string{"api.example.com"}, Agents: []string{"reviewer", "writer"}})
	w.putLimited("KEY", object{"agents": []string{}, "hosts": nil})
	get(stint.Secret{Hosts: []string{"api.example.com"}})
	w.putLimited("KEY", object{"hosts": []string{}})
	get(stint.Secret{})
	for body, want := range map[string]string{
		`{"value":"x","hosts":["https://a.test"]}`:    "hosts[0]",
		`{"value":"x","hosts":["a.test","10.1.2.3"]}`: "hosts[1]",
		`{"value":"x","hosts":["a.*.test"]}`:          "hosts[0]",
		`{"value":"x","agents":["Not A Name"]}`:       "agents[0]",
		`{"value":"x","hosts":"a.test"}`:              "hosts",
		`{"value":"x","agents":["a",""]}`:             "agents[1]",
	} {
		a := w.do(request{method: "PUT", path: "/v1/secrets/KEY", body: body, hostile: true})
		if a.StatusCode != http.StatusBadRequest || !strings.Contains(string(a.body), `"param":"`+want+`"`) {
			t.Errorf("%s returned %d %s", body, a.StatusCode, a.body)
		}
	}
}

// TestPushChecksStoredSecrets checks that a definition cannot widen the hosts and agents
// of a stored secret, and that naming a secret without hosts requires the scope admin.
func TestPushChecksStoredSecrets(t *testing.T) {
	w := newWorld(t)
	writer := w.tokenWithScope("write")
	w.putLimited("FREE", object{})
	w.putLimited("HOSTED", object{"hosts": []string{"*.example.com"}})
	w.putLimited("LISTED", object{"agents": []string{"listed"}})
	names := func(name string, use object) object { return object{"secrets": object{name: use}} }
	in := func(name string) object { return object{"environment": object{"A": "${{ secrets." + name + " }}"}} }
	const scope, invalid = "insufficient_scope", "invalid_parameter"
	for _, c := range []struct {
		token, agent string
		d            object
		status       int
		want         string
	}{
		{writer, "a", object{}, 201, ""},
		{writer, "a", names("FREE", object{}), 403, scope + " secrets.FREE"},
		{writer, "a", in("FREE"), 403, scope + " environment.A"},
		{writer, "a", names("FREE", hosts("evil.test")), 403, scope + " secrets.FREE"},
		{"", "a", names("FREE", hosts("api.example.com")), 201, ""},
		{writer, "a", object{"secrets": object{"FREE": hosts("api.example.com")}, "timeout": "5m"}, 201, ""},
		{writer, "a", names("FREE", hosts("api.example.com", "evil.test")), 403, scope + " secrets.FREE"},
		{writer, "a", names("FREE", object{}), 403, scope + " secrets.FREE"},
		{writer, "a", object{}, 201, ""},
		{writer, "a", names("FREE", hosts("api.example.com")), 403, scope + " secrets.FREE"}, // it was removed
		{writer, "b", in("FREE"), 403, scope + " environment.A"},
		{writer, "b", names("HOSTED", object{}), 201, ""},
		{writer, "b", in("HOSTED"), 201, ""},
		{writer, "b", names("HOSTED", hosts("api.example.com", "evil.test")), 201, ""}, // only the common host receives it
		{writer, "b", names("HOSTED", hosts("evil.test", "example.com")), 400, invalid + " secrets.HOSTED.hosts"},
		{"", "b", names("HOSTED", hosts("evil.test")), 400, invalid + " secrets.HOSTED.hosts"},
		{"", "c", names("LISTED", object{}), 400, invalid + " secrets.LISTED"},
		{writer, "listed", in("LISTED"), 201, ""},
		{writer, "b", names("NOT_STORED", object{}), 201, ""},
	} {
		w.pushes(c.token, c.agent, c.d, c.status, c.want)
	}
	model := object{"framework": "assistant", "model": "large-1", "provider": object{"type": "anthropic", "apiKey": object{"secret": "HOSTED"}}}
	w.pushes("", "model", model, 400, invalid+" provider.apiKey.secret")
	w.putLimited("HOSTED", object{"hosts": []string{"api.anthropic.com"}})
	w.pushes(writer, "model", model, 201, "")
	w.pushes(writer, "models", object{"framework": "assistant", "model": "large-1", "provider": object{"type": "anthropic", "apiKey": object{"secret": "FREE"}}}, 403, scope+" provider.apiKey.secret")
}

// TestRunReceivesNamedSecrets checks which stored secrets an assignment contains.
func TestRunReceivesNamedSecrets(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{"VARIABLE", "BROKERED", "IN_TEXT", "UNNAMED", "GIVEN"} {
		w.putLimited(name, object{})
	}
	w.putLimited("HOSTED", object{"hosts": []string{"*.example.com"}})
	w.putLimited("OTHERS", object{"agents": []string{"other"}})
	w.pushes("", "reviewer", object{
		"secrets":     object{"VARIABLE": object{}, "BROKERED": hosts("a.test"), "HOSTED": hosts("api.example.com", "b.test"), "GIVEN": object{}},
		"environment": object{"A": "${{ secrets.IN_TEXT }}"},
	}, 201, "")
	w.post("/v1/runs", object{"agent": "reviewer", "prompt": "x", "secrets": object{"GIVEN": "given"}}, http.StatusAccepted, &stint.Run{})
	a := w.assigned()
	if a.Err != nil {
		t.Fatal(a.Err)
	}
	w.diff("stored", map[string]string{
		"VARIABLE": "value of VARIABLE", "BROKERED": "value of BROKERED", "IN_TEXT": "value of IN_TEXT", "HOSTED": "value of HOSTED",
	}, a.Stored)
	w.diff("hosts", map[string]stint.SecretUse{
		"VARIABLE": {}, "GIVEN": {}, "BROKERED": {Hosts: []string{"a.test"}}, "HOSTED": {Hosts: []string{"api.example.com"}},
	}, a.Plan.Definition.Secrets)
	w.diff("unnamed", 0, len(a.Unnamed))
}

// TestSecretChangesBeforeRun checks that a run fails if a stored secret changed after its
// definition was pushed so that the run may not use it.
func TestSecretChangesBeforeRun(t *testing.T) {
	for name, change := range map[string]func(*world){
		"hosts":   func(w *world) { w.putLimited("KEY", object{"hosts": []string{"b.test"}}) },
		"agents":  func(w *world) { w.putLimited("KEY", object{"agents": []string{"other"}}) },
		"deleted": func(w *world) { w.do(request{method: "DELETE", path: "/v1/secrets/KEY"}) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.putLimited("KEY", object{})
			w.pushes("", "reviewer", object{"secrets": object{"KEY": hosts("a.test")}}, 201, "")
			w.newRun("reviewer", "x")
			change(w)
			if a := w.assigned(); stint.KindOf(a.Err) != stint.KindInvalid || len(a.Stored) != 0 || !strings.Contains(fmt.Sprint(a.Err), "KEY") {
				t.Errorf("the assignment has %d stored secrets and %v", len(a.Stored), a.Err)
			}
			a := w.do(request{method: "POST", path: "/v1/runs", body: object{"agent": "reviewer", "prompt": "x"}})
			if accepted := a.StatusCode == http.StatusAccepted; accepted != (name == "hosts") {
				t.Errorf("another run returned %d %s", a.StatusCode, a.body)
			}
			w.post("/v1/runs", object{"agent": "reviewer", "prompt": "x", "secrets": object{"KEY": "given"}}, http.StatusAccepted, &stint.Run{})
		})
	}
}

// TestSecretsOfChildRuns checks that a run that an agent starts can read only stored
// secrets that the definition of its parent names too.
func TestSecretsOfChildRuns(t *testing.T) {
	w := newWorld(t)
	w.putLimited("KEY", object{})
	w.putLimited("HOSTED", object{"hosts": []string{"a.test"}})
	w.pushes("", "bare", object{}, 201, "")
	w.pushes("", "naming", object{"secrets": object{"KEY": hosts("a.test")}}, 201, "")
	w.pushes("", "reader", object{"environment": object{"A": "${{ secrets.KEY }}"}}, 201, "")
	w.pushes("", "sender", object{"secrets": object{"KEY": hosts("a.test"), "HOSTED": object{}}}, 201, "")
	start := func(parent, child string, status int) {
		t.Helper()
		w.newRun(parent, "x")
		token := w.claim().runToken(0)
		a := w.do(request{method: "POST", path: "/v1/runs", token: token, body: object{"agent": child, "prompt": "x"}})
		if a.StatusCode != status {
			t.Fatalf("%s started %s: %d %s", parent, child, a.StatusCode, a.body)
		}
		if status != http.StatusAccepted {
			if !strings.Contains(string(a.body), `"param":"secrets.KEY"`) || a.errorOf() != "invalid_request_error missing_parameter" {
				t.Errorf("%s started %s: %s", parent, child, a.body)
			}
			return
		}
		if got := w.assigned(); got.Err != nil || got.Stored["KEY"] == "" {
			t.Errorf("%s started %s: %v, %v", parent, child, got.Stored, got.Err)
		}
	}
	start("bare", "reader", http.StatusBadRequest)
	start("bare", "sender", http.StatusAccepted) // the agent cannot read it
	start("naming", "reader", http.StatusAccepted)
	start("reader", "reader", http.StatusAccepted)

	// The limits of the secret may change before the child starts.
	w.putLimited("KEY", object{"hosts": []string{"a.test"}})
	w.newRun("bare", "x")
	token := w.claim().runToken(0)
	if a := w.do(request{method: "POST", path: "/v1/runs", token: token, body: object{"agent": "reader", "prompt": "x"}}); a.StatusCode != http.StatusAccepted {
		t.Fatal(a.StatusCode, string(a.body))
	}
	w.putLimited("KEY", object{"hosts": []string{}})
	if a := w.assigned(); stint.KindOf(a.Err) != stint.KindInvalid || len(a.Stored) != 0 {
		t.Errorf("the child received %d secrets, %v", len(a.Stored), a.Err)
	}
}

// TestSecretsOfGrandchildRuns checks that an agent cannot read a secret through two other
// agents: through one that names the secret but cannot read it, or that was given another
// value.
func TestSecretsOfGrandchildRuns(t *testing.T) {
	w := newWorld(t)
	w.putLimited("KEY", object{})
	w.pushes("", "bare", object{}, 201, "")
	w.pushes("", "reader", object{"environment": object{"A": "${{ secrets.KEY }}"}}, 201, "")
	w.pushes("", "sender", object{"secrets": object{"KEY": hosts("a.test")}}, 201, "")
	start := func(token, agent string, secrets object) response {
		t.Helper()
		return w.do(request{method: "POST", path: "/v1/runs", token: token, body: object{"agent": agent, "prompt": "x", "secrets": secrets}})
	}
	for _, c := range []struct {
		first, second string
		given         object
		status        int
	}{
		{"bare", "sender", object{}, http.StatusBadRequest},
		{"bare", "reader", object{"KEY": "another value"}, http.StatusBadRequest},
		{"sender", "sender", object{}, http.StatusAccepted},
	} {
		w.newRun(c.first, "x")
		if a := start(w.claim().runToken(0), c.second, c.given); a.StatusCode != http.StatusAccepted {
			t.Fatalf("%s started %s: %d %s", c.first, c.second, a.StatusCode, a.body)
		}
		if a := start(w.claim().runToken(1), "reader", object{}); a.StatusCode != c.status {
			t.Errorf("%s started %s, which started reader: %d %s", c.first, c.second, a.StatusCode, a.body)
		}
	}
}
