package contract_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/e2e/installation"
	"github.com/stint-dev/stint/internal/config"
	"github.com/stint-dev/stint/internal/testkit/pgtest"
)

// concurrencyCases are tests with concurrent requests.
var concurrencyCases = []testCase{
	{"a name is used once", oneName},
	{"version numbers have no gaps", countedVersions},
	{"one of several cancel requests succeeds", oneCancel},
	{"runs that write one artifact", oneArtifact},
}

// concurrently sends n requests at the same time and returns the responses. The ith
// request is ask(i).
func (w *tenant) concurrently(n int, ask func(i int) request) []response {
	w.Helper()
	responses := make([]response, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			r := ask(i)
			r.undocumented = true
			responses[i] = w.do(r)
		})
	}
	wg.Wait()
	return responses
}

func oneName(w *tenant) {
	for path, body := range map[string]object{"/v1/volumes": {"name": "x"}, "/v1/artifacts": {"name": "x"}, "/v1/agents": definition("x", nil)} {
		made := 0
		for _, a := range w.concurrently(8, func(int) request { return request{method: "POST", path: path, body: body} }) {
			switch f := a.apiError(); {
			case a.StatusCode == 201:
				made++
			case a.StatusCode != 409 || f.Type+" "+f.Code != exists:
				w.Errorf("%s returned %d %s", path, a.StatusCode, a.body)
			}
		}
		w.equal(path, 1, made)
	}
}

// number returns the number N in a version ID vN_…, or 0 for other text.
func number(version string) (n int) {
	_, _ = fmt.Sscanf(version, "v%d_", &n) // n is still 0 if version has another format
	return n
}

func countedVersions(w *tenant) {
	t := w.newTree("volumes", "data")
	at := "/v1/volumes/" + t.ID + "/versions"
	const n = 8
	w.concurrently(n, func(i int) request {
		return request{method: "POST", path: at, body: pack(w, entry{Name: "a", Text: fmt.Sprint(i)})}
	})
	var got []int
	for _, v := range list[stint.FileSetVersion](w, at, nil) {
		got = append(got, number(v.ID))
	}
	slices.Sort(got)
	w.equal("versions", []int{1, 2, 3, 4, 5, 6, 7, 8}, got)
	w.equal("head", n, number(*w.tree("volumes", "data").CurrentVersionID))
	agent := "/v1/agents/" + w.shell.ID + "/versions"
	w.concurrently(n-1, func(i int) request {
		return request{method: "POST", path: agent, body: definition("", object{"description": fmt.Sprint(i)})}
	})
	got = nil
	for _, v := range list[stint.AgentVersion](w, agent, nil) {
		got = append(got, int(v.VersionNumber))
	}
	slices.Sort(got)
	w.equal("versions of an agent", []int{1, 2, 3, 4, 5, 6, 7, 8}, got)
	first := w.push("volumes", t.ID, pack(w, entry{Name: "a", Text: "first"}))
	won := 0
	for _, a := range w.concurrently(n, func(i int) request {
		return request{method: "POST", path: at, body: pack(w, entry{Name: "b", Text: fmt.Sprint(i)}), header: map[string]string{"If-Match": first.ID}}
	}) {
		switch f := a.apiError(); {
		case a.StatusCode == 201:
			won++
		case a.StatusCode != 409 || f.Type+" "+f.Code != badHead:
			w.Errorf("a push returned %d %s", a.StatusCode, a.body)
		}
	}
	w.equal("pushes that won", 1, won)
}

func oneCancel(w *tenant) {
	r := w.startRun(object{"prompt": "sleep 600"})
	won := 0
	for _, a := range w.concurrently(8, func(int) request { return request{method: "POST", path: "/v1/runs/" + r.ID + "/cancel"} }) {
		switch f := a.apiError(); {
		case a.StatusCode == 200:
			won++
		case a.StatusCode != 400 || f.Type+" "+f.Code != badState:
			w.Errorf("a cancel returned %d %s", a.StatusCode, a.body)
		}
	}
	w.equal("cancels that won", 1, won)
	w.equal("complete events", 1, strings.Count(strings.Join(types(w.followRun(r.ID).all()), " "), "complete"))
}

func oneArtifact(w *tenant) {
	const n = 5
	var runs, made []string
	for i := range n {
		runs = append(runs, w.create(object{"prompt": fmt.Sprint("echo ", i, " > file; sleep 0.1"), "artifactName": "out"}).ID)
	}
	for _, id := range runs {
		made = append(made, *w.awaitStatus(id, stint.Completed).ArtifactVersion)
	}
	o, versions := w.artifact("out")
	slices.Sort(made)
	w.equal("versions", made, slices.Sorted(slices.Values(ids(versions))))
	w.equal("number of versions", n, len(versions))
	w.equal("head", n, number(installation.Value(o.CurrentVersionID)))
}

// TestConcurrencyLimits checks the limits of concurrent runs per organisation and per
// agent, and that waiting runs start in the order of their priority.
func TestConcurrencyLimits(t *testing.T) {
	t.Parallel()
	for name, database := range databases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := serve(t, database(t), func(c *config.Config) { c.PerOrg, c.PerAgent = 2, 1 })
			w := h.tenant(t)
			w.agent("second", nil)
			w.agent("third", nil)
			first := w.startRun(object{"prompt": "sleep 600"})
			low := w.create(object{"priority": 1})  // waits because of the limit of its agent
			high := w.create(object{"priority": 9}) // waits because of the same limit
			second := w.startRun(object{"agent": "second", "prompt": "sleep 600"})
			third := w.create(object{"agent": "third"}) // waits because of the limit of its organisation
			other := h.tenant(t)
			other.run(object{}) // a run of another organisation does not wait
			for _, r := range []stint.Run{low, high, third} {
				w.equal("a run beyond the limit", stint.Pending, w.read(r.ID).Status)
			}
			w.cancel(first.ID)
			low, high = w.awaitStatus(low.ID, stint.Completed), w.awaitStatus(high.ID, stint.Completed)
			if !high.StartedAt.Before(low.StartedAt.Time) {
				w.Errorf("the urgent one started at %s, the other at %s", high.StartedAt, low.StartedAt)
			}
			w.awaitStatus(third.ID, stint.Completed)
			w.cancel(second.ID)
		})
	}
}

// databases maps the name of each supported database to a function that returns the URL
// of a new database. The URL is empty for SQLite.
var databases = map[string]func(*testing.T) string{
	"SQLite":     func(*testing.T) string { return "" },
	"PostgreSQL": func(t *testing.T) string { return pgtest.URL(t) },
}
