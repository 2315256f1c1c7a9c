package contract_test

import (
	"testing"

	"github.com/stint-dev/stint/e2e/installation"
	"github.com/stint-dev/stint/internal/testkit/pgtest"
)

func TestMain(m *testing.M) {
	installation.Parallel(8) // these tests mostly wait
	pgtest.Main(m)
}

// testCase is a test that runs once for each database, in a new organisation.
type testCase struct {
	name string
	run  func(*tenant)
}

// testCases returns all cases. The slowest cases are first.
func testCases() []testCase {
	var all []testCase
	for _, group := range [][]testCase{
		timingCases, attemptCases, runCases, createCases, inputCases, sessionCases, eventCases, logCases,
		secretCases, idempotencyCases, listCases, fileSetCases, downloadCases, artifactCases, lineageCases, agentCases,
		accessCases, headerCases, mcpCases, concurrencyCases,
	} {
		all = append(all, group...)
	}
	return all
}

func TestSQLite(t *testing.T) {
	t.Parallel()
	runAll(t, serve(t, ""))
}

func TestPostgreSQL(t *testing.T) {
	t.Parallel()
	runAll(t, serve(t, pgtest.URL(t)))
}

// runAll runs all cases against one service, in parallel.
func runAll(t *testing.T, h *host) {
	for _, p := range testCases() {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			p.run(h.tenant(t))
		})
	}
}
