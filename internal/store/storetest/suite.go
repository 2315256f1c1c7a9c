package storetest

import (
	"testing"

	"github.com/stint-dev/stint/internal/store"
)

// Harness opens the store under test.
type Harness struct {
	// Open makes a fresh, empty store that the test's cleanup closes.
	Open func(t testing.TB) store.Store
	// Reopen closes the store and opens the same database again. Without it
	// the cases that need it are left out.
	Reopen func(t testing.TB, s store.Store) store.Store
}

// testCase is one sentence of the port, told by a test in a world of its own.
type testCase struct {
	name string
	run  func(w *world)
}

type subject struct {
	name  string
	cases []testCase
}

func subjects(h Harness) []subject {
	all := []subject{
		{"access", accessCases},
		{"secrets", secretCases},
		{"agents", agentCases},
		{"trees", treeCases},
		{"collection", collectionCases},
		{"retention", retentionCases},
		{"mounts", mountCases},
		{"runs", runCases},
		{"claim", claimCases},
		{"fairness", fairnessCases},
		{"append", appendCases},
		{"events", eventCases},
		{"finish", finishCases},
		{"version", versionCases},
		{"late checkpoint", lateCases},
		{"cancel", cancelCases},
		{"lease", leaseCases},
		{"reap", reapCases},
		{"session", sessionCases},
		{"list", listCases},
		{"filter", filterCases},
		{"logs", logCases},
		{"idempotency", idempotencyCases},
		{"keys", keyCases},
		{"metrics", metricCases},
		{"isolation", isolationCases},
		{"life", lifeCases},
		{"machine", machineCases},
	}
	if h.Reopen != nil {
		all = append(all, subject{"reopen", reopenCases})
	}
	return all
}

// Run holds the store to the port.
func Run(t *testing.T, h Harness) {
	for _, s := range subjects(h) {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			for _, c := range s.cases {
				t.Run(c.name, func(t *testing.T) {
					t.Parallel()
					c.run(newWorld(t, h))
				})
			}
		})
	}
	t.Run("linearizable", func(t *testing.T) { t.Parallel(); Linearizable(t, h) })
	t.Run("mutants", func(t *testing.T) { t.Parallel(); Mutants(t, h) })
}
