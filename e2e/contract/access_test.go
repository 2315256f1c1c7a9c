package contract_test

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/stint-dev/stint"
)

var accessCases = []testCase{
	{"invalid tokens get the same response", badTokens},
	{"tokens are created, listed, and shown once", tokens},
	{"scopes", scopes},
	{"viewers can only read", viewers},
	{"revocation ends open streams", revoking},
	{"resources of other organisations are not found", otherOrganisations},
}

func (w *tenant) newToken(body object) (t stint.Token) {
	w.Helper()
	if body["name"] == nil {
		body["name"] = "made"
	}
	w.must(http.StatusCreated, request{method: "POST", path: "/v1/tokens", body: body}, &t)
	return t
}

func badTokens(w *tenant) {
	revoked, expired := w.newToken(object{}), w.newToken(object{"expiresInDays": 1})
	w.must(204, request{method: "DELETE", path: "/v1/tokens/" + revoked.ID}, nil)
	w.host.execute(w, "update tokens set expires_at = $1 where id = $2", time.Now().Add(-time.Second).UnixMicro(), expired.ID)
	flipped := []byte(w.token)
	flipped[len(flipped)-1] ^= 1
	bodies := map[string]bool{}
	for what, header := range map[string]string{
		"none": "", "malformed": "Bearer x", "unknown": "Bearer stint_live_" + strings.Repeat("0", 64), "flipped": "Bearer " + string(flipped), "no scheme": w.token,
		"another scheme": "Basic " + w.token, "scheme alone": "Bearer", "upper case": "Bearer " + strings.ToUpper(w.token), "shortened": "Bearer " + w.token[:74],
		"lengthened": "Bearer " + w.token + "0", "revoked": "Bearer " + revoked.Secret, "expired": "Bearer " + expired.Secret, "two spaces": "Bearer  " + w.token,
	} {
		for _, r := range []request{{method: "GET", path: "/v1/runs"}, {method: "POST", path: "/v1/runs", body: "{"}, {method: "PATCH", path: "/v1/runs"}, {method: "GET", path: "/v1/volumes/x/download"}} {
			r.token, r.header, r.undocumented = "-", map[string]string{"Authorization": header}, true
			a := w.do(r)
			if a.StatusCode != 401 || a.Header.Get("WWW-Authenticate") != "Bearer" {
				w.Errorf("%s: %s %s returned %d, %q", what, r.method, r.path, a.StatusCode, a.Header.Get("WWW-Authenticate"))
			}
			bodies[string(a.body)] = true
		}
	}
	w.equal("bodies", 1, len(bodies))
	w.wantError(request{method: "GET", path: "/v1/runs", token: "-"}, 401, badKey)
}

func tokens(w *tenant) {
	var made object
	w.must(201, request{method: "POST", path: "/v1/tokens", body: object{"name": "ci", "expiresInDays": 30, "scopes": []string{"read"}}}, &made)
	w.equal("members", []string{"createdAt", "expiresAt", "id", "lastUsedAt", "name", "scopes", "token", "tokenPrefix"}, keys(made))
	secret := made["token"].(string)
	if digits, ok := strings.CutPrefix(secret, "stint_live_"); !ok || len(digits) != 64 || strings.Trim(digits, "0123456789abcdef") != "" {
		w.Errorf("the token is %q", secret)
	}
	w.must(200, request{method: "GET", path: "/v1/runs", token: secret}, nil)
	shown := w.object("/v1/tokens/" + made["id"].(string))
	delete(made, "token")
	delete(made, "lastUsedAt")
	delete(shown, "lastUsedAt")
	w.equal("shown token", made, shown)
	if !strings.HasPrefix(secret, shown["tokenPrefix"].(string)) {
		w.Errorf("tokenPrefix %v", shown["tokenPrefix"])
	}
	if raw := w.do(request{method: "GET", path: "/v1/tokens"}).body; strings.Contains(string(raw), secret[20:]) {
		w.Error("the list shows the token")
	}
	t := w.newToken(object{})
	w.equal("days", 90*24*time.Hour, t.ExpiresAt.Sub(t.CreatedAt.Time))
	w.equal("scopes", []string{"read", "write", "admin"}, t.Scopes)
	for _, bad := range []object{{"expiresInDays": 0}, {"expiresInDays": 366}, {"expiresInDays": -1}, {"expiresInDays": "30"}, {"expiresInDays": 1.5}, {"scopes": []string{"root"}}, {"scopes": "read"}, {"name": strings.Repeat("x", 200)}} {
		if bad["name"] == nil {
			bad["name"] = "bad"
		}
		w.wantError(request{method: "POST", path: "/v1/tokens", body: bad}, 400, invalid)
	}
	w.wantError(request{method: "POST", path: "/v1/tokens", body: object{}}, 400, missing, "name")
	w.newToken(object{"expiresInDays": 1})
	w.newToken(object{"expiresInDays": 365})
	w.waitUntil("the time of the last use", func() bool { return w.object("/v1/tokens/" + made["id"].(string))["lastUsedAt"] != nil })
	me := w.object("/v1/me")
	w.equal("organisation and user", []any{w.org, "ann"}, []any{me["organization"].(object)["name"], me["user"].(object)["name"]})
}

func scopes(w *tenant) {
	reader, writer := w.newToken(object{"scopes": []string{"read"}}), w.newToken(object{"scopes": []string{"read", "write"}})
	run := w.run(object{})
	v := w.volume("data", object{"a": "1"})
	writes := []request{
		{method: "POST", path: "/v1/runs", body: w.newRun(nil)},
		{method: "POST", path: "/v1/runs/" + run.ID + "/cancel"},
		{method: "POST", path: "/v1/agents", body: definition("x", nil)},
		{method: "DELETE", path: "/v1/agents/" + w.shell.ID},
		{method: "POST", path: "/v1/agents/" + w.shell.ID + "/versions", body: definition("", nil)},
		{method: "POST", path: "/v1/volumes", body: object{"name": "x"}},
		{method: "DELETE", path: "/v1/volumes/" + v.VolumeID},
		{method: "POST", path: "/v1/volumes/" + v.VolumeID + "/versions", body: pack(w)},
		{method: "POST", path: "/v1/artifacts", body: object{"name": "x"}},
	}
	admin := []request{
		{method: "GET", path: "/v1/tokens"},
		{method: "POST", path: "/v1/tokens", body: object{"name": "x"}},
		{method: "GET", path: "/v1/tokens/" + reader.ID},
		{method: "DELETE", path: "/v1/tokens/" + reader.ID},
		{method: "GET", path: "/v1/secrets"},
		{method: "PUT", path: "/v1/secrets/A", body: object{"value": "valuable"}},
		{method: "DELETE", path: "/v1/secrets/A"},
	}
	for _, r := range slices.Concat(writes, admin) {
		r.token = reader.Secret
		if r.path == "/v1/tokens/"+reader.ID {
			r.token = writer.Secret // reader can read and revoke itself
		}
		w.wantError(r, 403, badScope)
	}
	for _, r := range admin {
		r.token = writer.Secret
		w.wantError(r, 403, badScope, "admin")
	}
	for _, path := range []string{"/v1/runs", "/v1/runs/" + run.ID, "/v1/runs/" + run.ID + "/logs", "/v1/volumes/" + v.VolumeID, "/v1/agents", "/v1/sessions", "/v1/me"} {
		w.must(200, request{method: "GET", path: path, token: reader.Secret}, nil)
	}
	w.must(202, request{method: "POST", path: "/v1/runs", body: w.newRun(nil), token: writer.Secret}, nil)
	w.equal("the run", stint.Completed, w.read(run.ID).Status)
	w.equal("volumes", 1, len(list[object](w, "/v1/volumes", nil)))
	w.must(204, request{method: "DELETE", path: "/v1/tokens/" + reader.ID, token: reader.Secret}, nil) // a token can revoke itself
}

func viewers(w *tenant) {
	bob := w.host.login(w, w.org, "bob")
	me := object{}
	w.must(200, request{method: "GET", path: "/v1/me", token: bob}, &me)
	w.host.execute(w, "update members set role = 'viewer' where user_id = $1 and org_id = $2", me["user"].(object)["id"], me["organization"].(object)["id"])
	token := w.host.login(w, w.org, "bob") // created after the change of the role
	for _, path := range []string{"/v1/runs", "/v1/agents", "/v1/volumes"} {
		w.must(200, request{method: "GET", path: path, token: token}, nil)
	}
	for _, r := range []request{{method: "POST", path: "/v1/runs", body: w.newRun(nil)}, {method: "POST", path: "/v1/volumes", body: object{"name": "x"}}, {method: "GET", path: "/v1/tokens"}} {
		r.token = token
		w.wantError(r, 403, badScope)
		r.token = bob // created before the change, with all scopes
		w.waitUntil("status 403 with the old token", func() bool { a := w.do(undocumented(r)); return a.StatusCode == 403 })
	}
}

func undocumented(r request) request { r.undocumented = true; return r }

func revoking(w *tenant) {
	r := w.startRun(object{"prompt": "sleep 600"})
	t := w.newToken(object{"scopes": []string{"read"}})
	s := w.follow(request{path: "/v1/runs/" + r.ID + "/events", token: t.Secret})
	for range 3 {
		if _, ok := s.next(); !ok {
			w.Fatal("the stream ended")
		}
	}
	var viaToken struct{ Token string }
	w.must(201, request{method: "POST", path: "/v1/runs/" + r.ID + "/stream-token", token: t.Secret}, &viaToken)
	browser := w.follow(request{path: "/v1/runs/" + r.ID + "/events?access_token=" + viaToken.Token, token: "-"})
	if _, ok := browser.next(); !ok {
		w.Fatal("the stream ended")
	}
	w.must(204, request{method: "DELETE", path: "/v1/tokens/" + t.ID}, nil)
	s.all() // the stream ends, the run continues
	browser.all()
	w.equal("the run", stint.Running, w.read(r.ID).Status)
	w.wantError(request{method: "GET", path: "/v1/runs", token: t.Secret}, 401, badKey)
	w.wantError(request{method: "GET", path: "/v1/runs/" + r.ID + "/events?access_token=" + viaToken.Token, token: "-"}, 401, badKey)
	w.wantError(request{method: "GET", path: "/v1/tokens/" + t.ID}, 404, notFound, t.ID)
	w.wantError(request{method: "DELETE", path: "/v1/tokens/" + t.ID}, 404, notFound, t.ID)
	w.cancel(r.ID)
}

// verb is a request. In its path, % stands for the ID of a resource.
type verb struct {
	method, path string
	body         any
}

func treeVerbs(kind string) []verb {
	at := "/v1/" + kind + "/%"
	return []verb{
		{"GET", at, nil},
		{"DELETE", at, nil},
		{"GET", at + "/download", nil},
		{"GET", at + "/versions", nil},
		{"POST", at + "/versions", []byte("no tar")},
		{"GET", at + "/versions/latest", nil},
		{"GET", at + "/versions/1/files", nil},
		{"GET", at + "/versions/1/files/a", nil},
		{"GET", at + "/diff?from=1", nil},
	}
}

func otherOrganisations(w *tenant) {
	theirs := w.other()
	run := theirs.run(object{"artifactName": "out"})
	v := theirs.volume("data", object{"a": "1"})
	artifact := theirs.tree("artifacts", "out")
	token := theirs.newToken(object{})
	mine := w.run(object{})
	kinds := map[string][]verb{
		run.ID: {
			{"GET", "/v1/runs/%", nil},
			{"POST", "/v1/runs/%/cancel", nil},
			{"GET", "/v1/runs/%/events", nil},
			{"POST", "/v1/runs/%/stream-token", nil},
			{"GET", "/v1/runs/%/logs", nil},
			{"GET", "/v1/runs/%/metrics", nil},
		},
		run.SessionID: {{"GET", "/v1/sessions/%", nil}}, *run.CheckpointID: {{"GET", "/v1/checkpoints/%", nil}},
		theirs.shell.ID: {
			{"GET", "/v1/agents/%", nil},
			{"DELETE", "/v1/agents/%", nil},
			{"GET", "/v1/agents/%/versions", nil},
			{"POST", "/v1/agents/%/versions", definition("", nil)},
			{"GET", "/v1/agents/%/versions/1", nil},
		},
		v.VolumeID: treeVerbs("volumes"), artifact.ID: treeVerbs("artifacts"),
		token.ID: {{"GET", "/v1/tokens/%", nil}, {"DELETE", "/v1/tokens/%", nil}},
	}
	for foreign, verbs := range kinds {
		prefix, _, _ := strings.Cut(foreign, "_")
		another := mine.ID
		if prefix == "run" {
			another = mine.SessionID
		}
		for _, id := range []string{
			foreign, prefix + "_" + noULID, another, "x", prefix + "_", strings.ToUpper(foreign), foreign + "0", "null", "-1", "%27%3B--", "a%20b", "%C3%BC", "*",
		} {
			asked := strings.NewReplacer("%27%3B--", "';--", "a%20b", "a b", "%C3%BC", "ü").Replace(id)
			for _, verb := range verbs {
				w.wantError(request{method: verb.method, path: strings.ReplaceAll(verb.path, "%", id), body: verb.body}, 404, notFound, asked)
			}
		}
	}
	theirs.equal("their run", stint.Completed, theirs.read(run.ID).Status)
	theirs.get("/v1/volumes/"+v.VolumeID, nil)
}
