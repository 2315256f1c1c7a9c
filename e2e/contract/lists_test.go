package contract_test

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"

	"github.com/stint-dev/stint"
)

var listCases = []testCase{
	{"pages are stable while items are added", stableWalks},
	{"limits", limits},
	{"cursors belong to their list", cursors},
	{"the last page", lastPage},
	{"lists are newest first", newestFirst},
}

// walk reads all pages of a list and returns the given member of each item. It calls
// between before each page except the first.
func (w *tenant) walk(path, member string, limit int, between func()) (all []string) {
	w.Helper()
	separator := "?"
	if strings.Contains(path, "?") {
		separator = "&"
	}
	cursor := ""
	for range 1000 {
		var page stint.Page[object]
		w.get(fmt.Sprint(path, separator, "limit=", limit, cursor), &page)
		for _, item := range page.Data {
			all = append(all, item[member].(string))
		}
		if page.Pagination.HasMore != (page.Pagination.NextCursor != nil) || len(page.Data) > limit {
			w.Fatalf("%s: %d items, %+v", path, len(page.Data), page.Pagination)
		}
		if !page.Pagination.HasMore {
			return all
		}
		cursor = "&cursor=" + *page.Pagination.NextCursor
		between()
	}
	w.Fatalf("%s has no end", path)
	return nil
}

func stableWalks(w *tenant) {
	n := 0
	name := func() string { n++; return fmt.Sprint("item-", n) }
	volume, artifact := w.newTree("volumes", "data"), w.newTree("artifacts", "out")
	long := w.startRun(object{"prompt": "sleep 600"}) // further runs of its session stay pending
	adders := map[string]func(){
		"/v1/volumes":                            func() { w.newTree("volumes", name()) },
		"/v1/artifacts":                          func() { w.newTree("artifacts", name()) },
		"/v1/agents":                             func() { w.agent(name(), nil) },
		"/v1/tokens":                             func() { w.must(201, request{method: "POST", path: "/v1/tokens", body: object{"name": name()}}, nil) },
		"/v1/runs":                               func() { w.create(object{"sessionId": long.SessionID}) },
		"/v1/runs?status=pending":                func() { w.create(object{"sessionId": long.SessionID}) },
		"/v1/volumes/" + volume.ID + "/versions": func() { w.push("volumes", volume.ID, pack(w, entry{Name: name()})) },
		"/v1/artifacts/" + artifact.ID + "/versions": func() { w.push("artifacts", artifact.ID, pack(w, entry{Name: name()})) },
		"/v1/agents/" + w.shell.ID + "/versions": func() {
			w.must(201, request{method: "POST", path: "/v1/agents/" + w.shell.ID + "/versions", body: definition("", object{"description": name()})}, nil)
		},
	}
	for path, add := range adders {
		for range 7 {
			add()
		}
		before := w.walk(path, "id", 100, func() {})
		for _, limit := range []int{1, 3} {
			got := w.walk(path, "id", limit, add)
			w.equal(path, before, got)
			before = w.walk(path, "id", 100, func() {})
		}
		seen := map[string]bool{}
		for _, id := range before {
			if seen[id] {
				w.Errorf("%s has %s twice", path, id)
			}
			seen[id] = true
		}
	}
	w.cancel(long.ID)
}

// everyList creates several resources of each kind and returns the paths of all lists.
// Each list has at least two items.
func (w *tenant) everyList() []string {
	w.Helper()
	v := w.volume("data", object{"a": "1", "b": "2", "c": "3"})
	w.volume("data", object{"a": "2", "b": "3", "c": "4"})
	w.volume("more", object{"a": "1"})
	r := w.run(object{"prompt": "echo 1; sleep 0.05; echo 2", "artifactName": "out", "sessionId": w.run(object{}).SessionID})
	w.run(object{"artifactName": "out2"})
	w.agent("second", nil)
	w.must(201, request{method: "POST", path: "/v1/tokens", body: object{"name": "second"}}, nil)
	for _, name := range []string{"A", "B"} {
		w.must(201, request{method: "PUT", path: "/v1/secrets/" + name, body: object{"value": "valuable"}}, nil)
	}
	w.must(201, request{method: "POST", path: "/v1/agents/" + w.shell.ID + "/versions", body: definition("", object{"description": "new"})}, nil)
	at := "/v1/volumes/" + v.VolumeID
	return []string{
		"/v1/runs", "/v1/sessions", "/v1/agents", "/v1/volumes", "/v1/artifacts", "/v1/tokens", "/v1/secrets", "/v1/agents/" + w.shell.ID + "/versions",
		at + "/versions", at + "/versions/1/files", at + "/diff?from=1&to=2", "/v1/runs/" + r.ID + "/logs", "/v1/runs/" + r.ID + "/events",
	}
}

func (w *tenant) page(path string, limit any) (p stint.Page[object]) {
	w.Helper()
	w.must(200, request{method: "GET", path: with(path, fmt.Sprint("limit=", limit)), header: map[string]string{"Accept": "application/json"}}, &p)
	return p
}

func with(path, query string) string {
	if strings.Contains(path, "?") {
		return path + "&" + query
	}
	return path + "?" + query
}

func limits(w *tenant) {
	for _, path := range w.everyList() {
		for _, bad := range []string{"0", "101", "-1", "abc", "1.5", "", "1e1", "%2B5", "05", "99999999999999999999", "1&limit=1"} {
			w.wantError(request{method: "GET", path: with(path, "limit="+bad), header: map[string]string{"Accept": "application/json"}}, 400, invalid, "limit")
		}
		if n := len(w.page(path, 1).Data); n != 1 {
			w.Errorf("%s with limit 1 returned %d", path, n)
		}
		if n := len(w.page(path, 100).Data); n < 2 {
			w.Errorf("%s with limit 100 returned %d", path, n)
		}
	}
	for i := range 21 {
		w.newTree("artifacts", fmt.Sprint("item-", i))
	}
	var p stint.Page[object]
	w.get("/v1/artifacts", &p)
	w.equal("default", []any{20, true}, []any{len(p.Data), p.Pagination.HasMore})
}

func cursors(w *tenant) {
	paths := w.everyList()
	other := w.other()
	json := map[string]string{"Accept": "application/json"}
	cursor := map[string]string{}
	for _, path := range paths {
		p := w.page(path, 1)
		if p.Pagination.NextCursor == nil {
			w.Fatalf("%s has no second page", path)
		}
		cursor[path] = *p.Pagination.NextCursor
	}
	for i, path := range paths {
		refuse := func(what, cursor, filter string) {
			w.Helper()
			a := w.do(request{method: "GET", path: with(path, "cursor="+cursor+filter), header: json, undocumented: true})
			if f := a.apiError(); a.StatusCode != 400 || f.Type+" "+f.Code != invalid || f.Param != "cursor" {
				w.Errorf("%s with %s returned %d %s", path, what, a.StatusCode, a.body)
			}
		}
		own := cursor[path]
		refuse("another list's", cursor[paths[(i+1)%len(paths)]], "")
		refuse("another list's", cursor[paths[(i+5)%len(paths)]], "")
		for at := 0; at < len(own); at += 5 {
			changed := []byte(own)
			changed[at] = map[bool]byte{true: 'B', false: 'A'}[changed[at] == 'A']
			refuse("a changed one", string(changed), "")
		}
		invented := base64.RawURLEncoding.EncodeToString([]byte(`{"createdAt":"2026-01-01T00:00:00.000Z","id":"run_` + noULID + `"}`))
		for _, c := range []string{"", "x", "0", "null", "%00", own[:len(own)-1], own + "A", strings.Repeat("A", len(own)), invented, strings.Repeat("A", 5000)} {
			refuse("an invented one", c, "")
		}
		a := w.do(request{method: "GET", path: with(path, "limit=2&cursor="+own), header: json})
		w.equal(path+" with its own", 200, a.StatusCode)
		if parts := strings.Split(path, "/"); len(parts) == 3 {
			a := w.do(request{method: "GET", path: path + "?cursor=" + own, token: other.token, undocumented: true})
			w.equal(path+" of another organisation", 400, a.StatusCode)
		}
	}
	for _, filter := range []string{"status=completed", "agentId=" + w.shell.ID, "since=2020-01-01T00:00:00Z", "metadata[a]=b"} {
		w.wantError(request{method: "GET", path: "/v1/runs?" + filter + "&cursor=" + cursor["/v1/runs"]}, 400, invalid, "cursor")
	}
	filtered := *w.page("/v1/runs?status=completed", 1).Pagination.NextCursor
	w.wantError(request{method: "GET", path: "/v1/runs?cursor=" + filtered}, 400, invalid, "cursor")
	w.wantError(request{method: "GET", path: "/v1/runs?status=failed&cursor=" + filtered}, 400, invalid, "cursor")
	logs := paths[len(paths)-2]
	for _, filter := range []string{"order=desc", "type=agent", "until=2999-01-01T00:00:00Z"} {
		w.wantError(request{method: "GET", path: logs + "?" + filter + "&cursor=" + cursor[logs]}, 400, invalid, "cursor")
	}
}

func lastPage(w *tenant) {
	for _, path := range w.everyList() {
		p := w.page(path, 100)
		if p.Pagination.HasMore || p.Pagination.NextCursor != nil {
			w.Errorf("%s: the last page has %+v", path, p.Pagination)
		}
		exact := w.page(path, len(p.Data)) // the last page can be full
		if exact.Pagination.HasMore || len(exact.Data) != len(p.Data) {
			w.Errorf("%s: a full page has %+v", path, exact.Pagination)
		}
	}
	empty := w.other()
	raw := string(empty.do(request{method: "GET", path: "/v1/runs"}).body)
	w.equal("an empty list", `{"data":[],"pagination":{"hasMore":false,"nextCursor":null}}`, strings.TrimSpace(raw))
}

func newestFirst(w *tenant) {
	var made []string
	for i := range 5 {
		made = append(made, w.newTree("volumes", fmt.Sprint("item-", i)).ID)
	}
	slices.Reverse(made)
	w.equal("volumes", made, w.walk("/v1/volumes", "id", 2, func() {}))
	made = nil
	for range 5 {
		made = append(made, w.create(object{}).ID)
	}
	slices.Reverse(made)
	w.equal("runs", made, w.walk("/v1/runs", "id", 2, func() {}))
}
