package api_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/runs"
)

// walk reads all pages of a list, with at most limit items each, and returns the given
// member of each item. It calls between before each page except the first.
func (w *world) walk(path string, limit int, member string, between func()) (all []string) {
	w.Helper()
	separator := "?"
	if strings.Contains(path, "?") {
		separator = "&"
	}
	at := fmt.Sprintf("%s%slimit=%d", path, separator, limit)
	next := at
	for {
		var page stint.Page[map[string]any]
		w.get(next, &page)
		if len(page.Data) > limit || page.Pagination.HasMore && len(page.Data) != limit || page.Pagination.HasMore != (page.Pagination.NextCursor != nil) {
			w.Fatalf("%s returned %d items, %+v", next, len(page.Data), page.Pagination)
		}
		for _, item := range page.Data {
			all = append(all, fmt.Sprint(item[member]))
		}
		if !page.Pagination.HasMore {
			return all
		}
		between()
		next = at + "&cursor=" + url.QueryEscape(*page.Pagination.NextCursor)
	}
}

// TestPagesDuringChanges checks that the pages of a list contain every item that
// existed at the beginning once, newest first, while items are added.
func TestPagesDuringChanges(t *testing.T) {
	w := newWorld(t)
	agent := w.newAgent("reviewer")
	var volume, artifact stint.FileSet
	w.post("/v1/volumes", map[string]any{"name": "data"}, http.StatusCreated, &volume)
	w.post("/v1/artifacts", map[string]any{"name": "data"}, http.StatusCreated, &artifact)
	count := 0
	add := map[string]func(){
		"/v1/runs":     func() { w.newRun("reviewer", "x") },
		"/v1/sessions": func() { w.newRun("reviewer", "x") },
		"/v1/agents":   func() { count++; w.newAgent(fmt.Sprint("agent-", count)) },
		"/v1/volumes":  func() { count++; w.post("/v1/volumes", map[string]any{"name": fmt.Sprint("v-", count)}, 201, &volume) },
		"/v1/artifacts": func() {
			count++
			w.post("/v1/artifacts", map[string]any{"name": fmt.Sprint("a-", count)}, 201, &artifact)
		},
		"/v1/tokens": func() { w.tokenWithScope("read") },
		"/v1/agents/" + agent.ID + "/versions": func() {
			count++
			w.post("/v1/agents/"+agent.ID+"/versions", map[string]any{"framework": "shell", "description": fmt.Sprint(count)}, 201, &stint.AgentVersion{})
		},
		"/v1/volumes/" + volume.ID + "/versions": func(id string) func() {
			return func() {
				count++
				w.decode(w.do(request{method: "POST", path: "/v1/volumes/" + id + "/versions", body: archive(w, map[string]string{"a": fmt.Sprint(count)})}), 201, &stint.FileSetVersion{})
			}
		}(volume.ID),
	}
	for path, more := range add {
		for range 7 {
			more()
		}
		want := w.walk(path, 100, "id", func() {})
		if len(want) < 7 {
			t.Errorf("%s has %v", path, want)
		}
		for _, limit := range []int{1, 3, 7} {
			got := w.walk(path, limit, "id", more)
			w.diff(fmt.Sprint(path, " by ", limit), want, got)
			want = w.walk(path, 100, "id", func() {})
		}
	}
	for i := range 5 {
		if a := w.do(request{method: "PUT", path: fmt.Sprint("/v1/secrets/S", i), body: `{"value":"x"}`}); a.StatusCode != 201 {
			t.Fatal(a.StatusCode)
		}
	}
	w.diff("secrets", []string{"S0", "S1", "S2", "S3", "S4"}, w.walk("/v1/secrets", 2, "name", func() {}))
}

// largeRuns creates n runs with prompts of the maximum size, 512 KiB. In JSON, each
// character of the prompts is encoded as six bytes.
func (w *world) largeRuns(n int) {
	w.Helper()
	w.newAgent("reviewer")
	for range n { // not through the server, because its timeouts can be short
		run := stint.NewRun{Agent: "reviewer", Prompt: strings.Repeat("\x02", 512<<10)}
		if _, err := w.runs.Create(w.Context(), w.caller, run, runs.CreateOptions{}); err != nil {
			w.Fatal(err)
		}
	}
}

// TestPageBytes checks that a page contains fewer items than its limit if the items are
// large.
func TestPageBytes(t *testing.T) {
	w := newWorld(t)
	w.largeRuns(7)
	seen := map[string]bool{}
	var sizes []int
	for next := "/v1/runs?limit=100"; next != ""; {
		a := w.do(request{method: "GET", path: next})
		var page stint.Page[stint.RunSummary]
		w.decode(a, http.StatusOK, &page)
		if len(a.body) > 12<<20 {
			t.Errorf("a page has %d bytes", len(a.body))
		}
		for _, r := range page.Data {
			seen[r.ID] = true
		}
		sizes = append(sizes, len(page.Data))
		next = ""
		if page.Pagination.HasMore {
			next = "/v1/runs?limit=100&cursor=" + url.QueryEscape(*page.Pagination.NextCursor)
		}
	}
	w.diff("pages", []int{3, 3, 1}, sizes)
	if len(seen) != 7 {
		t.Errorf("the pages contain %d runs", len(seen))
	}
}

func TestPagesOfFilesAndChanges(t *testing.T) {
	w := newWorld(t)
	var volume stint.FileSet
	w.post("/v1/volumes", map[string]any{"name": "data"}, http.StatusCreated, &volume)
	files, want := map[string]string{}, []string{}
	for i := range 9 {
		name := fmt.Sprintf("f%d &+ü%%", i)
		files[name], want = "x", append(want, name)
	}
	at := "/v1/volumes/" + volume.ID
	for _, f := range []map[string]string{{"f0 &+ü%": "y"}, files} {
		w.decode(w.do(request{method: "POST", path: at + "/versions", body: archive(w, f)}), 201, &stint.FileSetVersion{})
	}
	w.diff("files", want, w.walk(at+"/versions/latest/files", 2, "path", func() {}))
	w.diff("changes", want, w.walk(at+"/diff?from=1&to=2", 2, "path", func() {}))
	w.diff("no changes", []string(nil), w.walk(at+"/diff?from=2", 2, "path", func() {}))
	count := 0
	moveHead := func() {
		count++
		changed := map[string]string{"f3 &+ü%a": fmt.Sprint(count), "f7 &+ü%": fmt.Sprint(count)}
		w.decode(w.do(request{method: "POST", path: at + "/versions", body: archive(w, changed)}), 201, &stint.FileSetVersion{})
	}
	w.diff("files while the head moves", want, w.walk(at+"/versions/latest/files", 2, "path", moveHead))
	w.decode(w.do(request{method: "POST", path: at + "/versions", body: archive(w, files)}), 201, &stint.FileSetVersion{})
	w.diff("changes while the head moves", want, w.walk(at+"/diff?from=1", 2, "path", moveHead))
	for list, path := range map[string]string{at + "/versions/latest/files?": at + "/versions/latest/files?cursor=", at + "/diff?from=1": at + "/diff?from=1&cursor="} {
		// Cursors of earlier versions of the server contain only a path.
		old := w.auth.SignCursor(w.caller.OrgID, list, []byte("f3 &+ü%"))
		if a := w.do(request{method: "GET", path: path + old, hostile: true}); a.StatusCode != 400 || !strings.Contains(string(a.body), `"param":"cursor"`) {
			t.Errorf("an old cursor of %s returned %d %s", list, a.StatusCode, a.body)
		}
	}
	if a := w.do(request{method: "GET", path: at + "/diff", hostile: true}); a.errorOf() != "invalid_request_error missing_parameter" {
		t.Errorf("a diff without from returned %s", a.body)
	}
}

func TestFilters(t *testing.T) {
	w := newWorld(t)
	w.newAgent("reviewer")
	w.newAgent("another")
	done := w.newRun("reviewer", "done")
	w.claim().finish(stint.Completed)
	w.pass(time.Second) // so that the runs have different times
	var tagged stint.Run
	w.post("/v1/runs", map[string]any{"agent": "another", "prompt": "tagged", "metadata": map[string]string{"ticket": "47 11", "a[b]": "c"}}, 202, &tagged)
	after := url.QueryEscape(tagged.CreatedAt.String())
	for query, want := range map[string][]string{
		"":                                       {"tagged", "done"},
		"status=completed":                       {"done"},
		"status=pending":                         {"tagged"},
		"status=timeout":                         nil,
		"status=pending,completed":               {"tagged", "done"},
		"status=completed&status=pending":        {"tagged", "done"},
		"status=failed,timeout&status=completed": {"done"},
		"status=pending&status=pending":          {"tagged"},
		"status=completed%2Cpending&metadata[a[b]]=c": {"tagged"},
		"agentId=" + done.AgentID:                     {"done"},
		"agentId=nonsense":                            nil,
		"agentId=" + done.ID:                          nil,
		"sessionId=" + tagged.SessionID:               {"tagged"},
		"metadata[ticket]=47%2011":                    {"tagged"},
		"metadata%5Bticket%5D=47+11":                  {"tagged"},
		"metadata[ticket]=4711":                       nil,
		"metadata[a[b]]=c":                            {"tagged"},
		"metadata[ticket]=47%2011&metadata[x]=":       nil,
		"since=" + after:                              {"tagged"},
		"until=2020-01-01T00:00:00.000Z":              nil,
		"status=completed&agentId=" + tagged.AgentID:  nil,
	} {
		w.diff(query, want, w.walk("/v1/runs?"+query, 1, "prompt", func() {}))
	}
	a := w.do(request{method: "GET", path: "/v1/runs?limit=1"})
	var page struct{ Data []map[string]json.RawMessage }
	w.decode(a, 200, &page)
	var members []string
	for name := range page.Data[0] {
		members = append(members, name)
	}
	slices.Sort(members)
	w.diff("members of an item", []string{"agentId", "agentName", "completedAt", "createdAt", "id", "prompt", "startedAt", "status"}, members)
}

// TestIDPrefixes checks that every list returns the items with IDs that begin with the
// given characters, and only items of the caller's organisation.
func TestIDPrefixes(t *testing.T) {
	w := newWorld(t)
	words := w.fixture()
	for _, path := range []string{"/v1/runs", "/v1/sessions", "/v1/agents", "/v1/volumes", "/v1/artifacts", "/v1/tokens"} {
		all := w.walk(path, 100, "id", func() {})
		for _, id := range all {
			w.diff("the whole ID at "+path, []string{id}, w.walk(path+"?idPrefix="+id, 1, "id", func() {}))
		}
		prefix, _, _ := strings.Cut(all[0], "_")
		w.diff("all IDs at "+path, all, w.walk(path+"?idPrefix="+prefix+"_", 1, "id", func() {}))
		w.diff("IDs of this century at "+path, all, w.walk(path+"?idPrefix="+prefix+"_0", 2, "id", func() {}))
		var foreign stint.Page[map[string]any]
		w.decode(w.do(request{method: "GET", path: path + "?idPrefix=" + all[0], token: words["other"]}), http.StatusOK, &foreign)
		w.diff("a foreign ID at "+path, 0, len(foreign.Data))
		for _, bad := range []string{"", "x", prefix, prefix + "_U", "%25", strings.ToUpper(all[0]), all[0] + "0", "other_01"} {
			a := w.do(request{method: "GET", path: path + "?idPrefix=" + bad, hostile: true})
			if a.errorOf() != "invalid_request_error invalid_parameter" || !strings.Contains(string(a.body), `"param":"idPrefix"`) {
				t.Errorf("the prefix %q at %s returned %d %s", bad, path, a.StatusCode, a.body)
			}
		}
	}
	agent := w.newAgent("prefixed")
	for query, want := range map[string][]string{
		"name=prefixed&idPrefix=" + agent.ID[:9]: {agent.ID},
		"name=prefixed&idPrefix=ag_00000":        nil,
	} {
		w.diff(query, want, w.walk("/v1/agents?"+query, 1, "id", func() {}))
	}
}

// TestListByNameReportsErrors checks that a list with a name and a prefix is not empty
// because the database failed.
func TestListByNameReportsErrors(t *testing.T) {
	w := newWorld(t)
	path := "/v1/artifacts?name=x&idPrefix=art_"
	w.diff("without the artifact", 0, len(w.walk(path, 1, "id", func() {}))) // the token is in the cache then
	if err := w.store.Close(); err != nil {
		t.Fatal(err)
	}
	if a := w.do(request{method: "GET", path: path, failing: true}); a.StatusCode < 500 {
		t.Errorf("the closed database was reported as %d %s", a.StatusCode, a.body)
	}
}

func TestQueryParameters(t *testing.T) {
	w := newWorld(t)
	words := w.fixture()
	bad := func(path, param string) row {
		return row{path, "GET", path, "", nil, nil, 400, []string{invalid, `"param":"` + param + `"`}, nil}
	}
	rows := []row{
		{"odd: unknown parameters are ignored", "GET", "/v1/runs?limits=x", "", nil, nil, 200, nil, nil},
		bad("/v1/runs?status=done", "status"), bad("/v1/runs?status=", "status"), bad("/v1/runs?status=failed&status=done", "status"), bad("/v1/runs?status=failed,", "status"), bad("/v1/runs?status=failed,%20timeout", "status"),
		{"unknown status", "GET", "/v1/runs?status=failed,done", "", nil, nil, 400, []string{"'done' is not a status", "pending, running, completed, failed, timeout, cancelled"}, nil},

		bad("/v1/runs?since=2026-01-02", "since"), bad("/v1/runs?until=now", "until"), bad("/v1/runs?a=%zz", "query"), bad("/v1/runs?a;b", "query"),
		bad("/v1/agents?name=", "name"),
	}
	lists := []string{
		"/v1/runs", "/v1/sessions", "/v1/agents", "/v1/volumes", "/v1/artifacts", "/v1/tokens", "/v1/secrets", "/v1/agents/{agent}/versions",
		"/v1/volumes/{volume}/versions", "/v1/volumes/{volume}/versions/1/files", "/v1/runs/{done}/logs",
	}
	for _, list := range lists {
		for _, limit := range []string{"0", "101", "-1", "+5", "05", "1e1", "5.0", "ten", "", "%205", "99999999999999999999"} {
			rows = append(rows, bad(list+"?limit="+limit, "limit"))
		}
		for _, cursor := range []string{"", "x", "AAAA", strings.Repeat("A", 20_000), "%00", "null"} {
			rows = append(rows, bad(list+"?cursor="+cursor, "cursor"))
		}
	}
	w.run(t, words, rows)
}

// TestCursorsOfOtherLists checks that a cursor is valid only for its own list.
func TestCursorsOfOtherLists(t *testing.T) {
	w := newWorld(t)
	agent := w.newAgent("reviewer")
	w.newAgent("another")
	run := w.newRun("reviewer", "x")
	w.newRun("reviewer", "x")
	var page stint.Page[stint.RunSummary]
	w.get("/v1/runs?limit=1&status=pending", &page)
	cursor := *page.Pagination.NextCursor
	checkRefused := func(path, token string) {
		t.Helper()
		if a := w.do(request{method: "GET", path: path, token: token, hostile: true}); a.errorOf() != "invalid_request_error invalid_parameter" {
			t.Errorf("%s returned %d %s", path, a.StatusCode, a.body)
		}
	}
	for _, path := range []string{
		"/v1/runs?", "/v1/runs?status=running&", "/v1/runs?status=pending&agentId=" + agent.ID + "&", "/v1/runs?status=pending&metadata[a]=b&",
		"/v1/sessions?", "/v1/agents?", "/v1/runs/" + run.ID + "/logs?", "/v1/agents/" + agent.ID + "/versions?",
	} {
		checkRefused(path+"cursor="+cursor, "")
	}
	checkRefused("/v1/runs?status=pending&cursor="+cursor, w.login("blue", "bob"))
	for i := range cursor {
		changed := []byte(cursor)
		changed[i] = map[bool]byte{true: 'B', false: 'A'}[changed[i] == 'A']
		if i%7 == 0 || i == len(cursor)-1 {
			checkRefused("/v1/runs?status=pending&cursor="+string(changed), "")
		}
	}
	w.get("/v1/runs?limit=1&status=pending,running", &page)
	for _, same := range []string{"status=running,pending", "status=running&status=pending", "status=pending&status=running,pending"} {
		var rest stint.Page[stint.RunSummary]
		w.get("/v1/runs?"+same+"&cursor="+*page.Pagination.NextCursor, &rest)
		w.diff(same, 1, len(rest.Data))
	}
	checkRefused("/v1/runs?status=pending&cursor="+*page.Pagination.NextCursor, "")
	var rest stint.Page[stint.RunSummary]
	w.get("/v1/runs?cursor="+cursor+"&status=pending&limit=5", &rest) // the order of parameters and the limit may differ
	if len(rest.Data) != 1 || rest.Data[0].ID != run.ID {
		t.Errorf("the second page is %+v", rest)
	}
}
