package contract_test

import (
	"testing"

	"github.com/stint-dev/stint/e2e/installation"
	"github.com/stint-dev/stint/internal/testkit/pgtest"
)

func TestMain(m *testing.M) {
	installation.Parallel(8) // most of what these tests do is wait
	pgtest.Main(m)
}

// promise is one thing that the service must keep on every database.
type promise struct {
	name string
	hold func(*world)
}

// promises are all of them, the long ones first.
func promises() []promise {
	var all []promise
	for _, chapter := range [][]promise{
		slowPromises, runPromises, createPromises, inputPromises, sessionPromises, eventPromises, logPromises,
		secretPromises, repeatPromises, listPromises, treePromises, downloadPromises, artifactPromises, agentPromises,
		accessPromises, headerPromises, toolPromises, crowdPromises,
	} {
		all = append(all, chapter...)
	}
	return all
}

func TestSQLite(t *testing.T) {
	t.Parallel()
	holdAll(t, serve(t, ""))
}

func TestPostgreSQL(t *testing.T) {
	t.Parallel()
	holdAll(t, serve(t, pgtest.URL(t)))
}

// holdAll holds a service to every promise, each in an organisation of its own.
func holdAll(t *testing.T, h *host) {
	for _, p := range promises() {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			p.hold(h.world(t))
		})
	}
}
