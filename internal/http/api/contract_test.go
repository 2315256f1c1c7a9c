package api_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	contract "github.com/stint-dev/stint/api"
	"github.com/stint-dev/stint/internal/http/api"
	"github.com/stint-dev/stint/internal/testkit/apitest"
)

// TestRoutesMatchContract checks that every operation of the contract has a route,
// and that every route is in the contract.
func TestRoutesMatchContract(t *testing.T) {
	t.Parallel()
	doc, err := openapi3.NewLoader().LoadFromData(contract.OpenAPI)
	if err != nil {
		t.Fatal(err)
	}
	var promised, served []string
	for path, item := range doc.Paths.Map() {
		for method := range item.Operations() {
			if method != "HEAD" { // the route of GET also serves HEAD
				promised = append(promised, method+" "+path)
			}
		}
	}
	for _, r := range api.Routes() {
		served = append(served, r[0]+" "+strings.NewReplacer("...", "", "{$}", "").Replace(r[1]))
	}
	for _, p := range promised {
		if !slices.Contains(served, p) {
			t.Errorf("the contract contains %s, which has no route", p)
		}
	}
	for _, s := range served {
		if !slices.Contains(promised, s) {
			t.Errorf("the route %s is not in the contract", s)
		}
	}
}

// TestRandomRequests checks that every response to random requests conforms to the
// contract.
func TestRandomRequests(t *testing.T) {
	w := newWorld(t)
	words := w.fixture()
	var ids []string
	for _, word := range []string{"agent", "agentVersion", "done", "run", "session", "volume", "artifact", "version", "checkpoint", "token"} {
		ids = append(ids, words[word])
	}
	report := apitest.Walk(t, w.url, w.token, apitest.Seeds{IDs: ids, Names: []string{"reviewer"}, Paths: []string{"a.txt"}})
	if len(report) < 30 {
		t.Errorf("the walk reached %d operations: %v", len(report), report)
	}
}
