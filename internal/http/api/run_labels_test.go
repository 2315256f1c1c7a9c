package api_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stint-dev/stint"
)

// TestRunLabels changes the metadata of a pending, a running, and an ended run.
func TestRunLabels(t *testing.T) {
	w := newWorld(t)
	w.newAgent("reviewer")
	var run stint.Run
	w.post("/v1/runs", map[string]any{"agent": "reviewer", "prompt": "x", "metadata": map[string]string{"team": "blue", "ticket": "1"}}, 202, &run)
	path := "/v1/runs/" + run.ID
	patch := func(change string) (changed stint.Run) {
		t.Helper()
		w.decode(w.do(request{method: "PATCH", path: path, body: change}), http.StatusOK, &changed)
		var read stint.Run
		w.get(path, &read)
		w.diff("run as read", read, changed)
		return changed
	}
	w.diff("pending", map[string]string{"team": "red", "new": "<&>"}, patch(`{"metadata":{"team":"red","ticket":null,"new":"<&>"}}`).Metadata)
	j := w.claim()
	w.diff("running", map[string]string{"team": "red", "new": ""}, patch(`{"metadata":{"new":""}}`).Metadata)
	j.finish(stint.Completed)
	w.get(path, &run)
	events := w.follow(request{path: path + "/events"}).all()
	for i := range 3 { // the response to GET is in the cache after the first request
		run.Metadata = map[string]string{"team": "red", "new": "", "round": fmt.Sprint(i)}
		w.diff("ended", run, patch(fmt.Sprintf(`{"metadata":{"round":"%d","missing":null}}`, i)))
	}
	w.diff("without a change", run, patch(`{}`))
	w.diff("without members", run, patch(`{"metadata":{}}`))
	w.diff("events", events, w.follow(request{path: path + "/events"}).all())
	w.diff("list by the new label", []string{run.ID}, w.walk("/v1/runs?metadata[round]=2", 10, "id", func() {}))
	w.diff("list by an old label", 0, len(w.walk("/v1/runs?metadata[ticket]=1", 10, "id", func() {})))
	w.diff("without labels", map[string]string{}, patch(`{"metadata":{"team":null,"new":null,"round":null}}`).Metadata)
}

// TestRunLabelErrors checks that invalid changes are refused and change nothing.
func TestRunLabelErrors(t *testing.T) {
	w := newWorld(t)
	words := w.fixture()
	change := func(name, body string, has ...string) row {
		return row{name, "PATCH", "/v1/runs/{done}", "", nil, body, 400, append([]string{invalid}, has...), nil}
	}
	many := make([]string, stint.MaxMetadata+1)
	for i := range many {
		many[i] = fmt.Sprintf(`"k%d":"v"`, i)
	}
	at := func(key string) string { return `"param":"metadata.` + key + `"` }
	w.run(t, words, []row{
		{"set", "PATCH", "/v1/runs/{done}", "writer", nil, `{"metadata":{"k":"v"}}`, 200, []string{`"metadata":{"k":"v"}`}, nil},
		{"with scope read", "PATCH", "/v1/runs/{done}", "reader", nil, `{"metadata":{"k":"v"}}`, 403, []string{scope}, nil},
		{"of another organisation", "PATCH", "/v1/runs/{done}", "other", nil, `{"metadata":{"k":"v"}}`, 404, []string{notFound, "{done}"}, nil},
		{"of another organisation, no change", "PATCH", "/v1/runs/{done}", "other", nil, `{}`, 404, []string{notFound, "{done}"}, nil},
		{"of another organisation, no body", "PATCH", "/v1/runs/{done}", "other", nil, nil, 404, []string{notFound, "{done}"}, nil},
		{"of another organisation, another member", "PATCH", "/v1/runs/{done}", "other", nil, `{"prompt":"x"}`, 404, []string{notFound, "{done}"}, nil},
		{"unknown run", "PATCH", "/v1/runs/run_{none}", "", nil, `{"metadata":{"k":"v"}}`, 404, []string{notFound}, nil},
		{"no body", "PATCH", "/v1/runs/{done}", "", nil, nil, 400, []string{missing}, nil},
		{"another content type", "PATCH", "/v1/runs/{done}", "", map[string]string{"Content-Type": "text/plain"}, `{}`, 415, []string{media}, nil},
		change("another member", `{"prompt":"x"}`, `"param":"prompt"`), change("the status", `{"metadata":{"k":"x"},"status":"cancelled"}`, `"param":"status"`),
		change("a list", `[]`), change("a number", `{"metadata":{"k":1}}`, at("k")), change("an object", `{"metadata":{"k":{}}}`, at("k")),
		change("null", `{"metadata":null}`, `"param":"metadata"`), change("text", `{"metadata":"k"}`, `"param":"metadata"`), change("metadata is a list", `{"metadata":["k"]}`, `"param":"metadata"`),
		change("an empty key", `{"metadata":{"":"v"}}`), change("a long key", `{"metadata":{"`+strings.Repeat("k", 65)+`":"v"}}`), change("a long value", `{"metadata":{"k":"`+strings.Repeat("v", 513)+`"}}`, at("k")),
		change("too many", `{"metadata":{`+strings.Join(many, ",")+`}}`, `"param":"metadata"`), change("too many with the stored one", `{"metadata":{`+strings.Join(many[1:], ",")+`}}`, `"param":"metadata"`),
		{"unchanged", "GET", "/v1/runs/{done}", "", nil, nil, 200, []string{`"metadata":{"k":"v"}`}, nil},
	})
}
