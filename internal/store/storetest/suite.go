package storetest

import (
	"testing"

	"github.com/stint-dev/stint/internal/store"
)

// Harness contains the functions that open the store under test.
type Harness struct {
	// Open returns a new, empty store. A cleanup of the test closes it.
	Open func(t testing.TB) store.Store
	// Reopen closes s and returns a store that uses the same database. If Reopen is
	// nil, the group of cases called reopen does not run.
	Reopen func(t testing.TB, s store.Store) store.Store
}

// testCase tests one rule that the doc comments of package store contain. Each
// case runs in a new world.
type testCase struct {
	name string
	run  func(w *world)
}

type caseGroup struct {
	name  string
	cases []testCase
}

func caseGroups(h Harness) []caseGroup {
	all := []caseGroup{
		{"access", accessCases},
		{"secrets", secretCases},
		{"agents", agentCases},
		{"file sets", fileSetCases},
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
		{"lineage", lineageCases},
		{"start version", startCases},
		{"add checkpoint", addCheckpointCases},
		{"cancel", cancelCases},
		{"lease", leaseCases},
		{"reap", reapCases},
		{"attempts", attemptCases},
		{"session", sessionCases},
		{"list", listCases},
		{"filter", filterCases},
		{"metadata", metadataCases},
		{"queue", queueCases},
		{"logs", logCases},
		{"idempotency", idempotencyCases},
		{"keys", keyCases},
		{"metrics", metricCases},
		{"activity", activityCases},
		{"statistics", statisticsCases},
		{"isolation", isolationCases},
		{"lifecycle", lifecycleCases},
	}
	if h.Reopen != nil {
		all = append(all, caseGroup{"reopen", reopenCases})
	}
	return all
}

// Run tests that the store behaves as the doc comments of package store require. The
// tests of an adapter also call Random, and its soak tests call Mutants.
func Run(t *testing.T, h Harness) {
	for _, s := range caseGroups(h) {
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
}

// Random tests the store with random operations. The package rapid generates them.
func Random(t *testing.T, h Harness) {
	for name, run := range map[string]func(*world){"run protocol": randomProtocol, "paging": randomPaging, "lineage": randomLineage} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run(newWorld(t, h))
		})
	}
}
