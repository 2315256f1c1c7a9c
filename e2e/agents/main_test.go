package agents_test

import (
	"testing"

	"github.com/stint-dev/stint/e2e/installation"
	"github.com/stint-dev/stint/internal/framework/fakecli"
)

func TestMain(m *testing.M) {
	fakecli.Main()
	installation.Parallel(6) // each agent takes a core for a second, and some of it is waiting
	installation.Main(m)
}

// promise is one thing that must hold for every agent, in an organisation of
// its own.
type promise struct {
	name string
	hold func(*world)
}

// promises are all of them.
var promises = []promise{
	{"refused", refused},
	{"recovers", recovers},
	{"goes on", goesOn},
	{"calls", calls},
	{"damaged", damaged},
	{"ends", ends},
	{"survives", survives},
	{"forms", forms},
	{"asks", asks},
	{"conceals", conceals},
	{"spends", spends},
	{"turns", turns},
	{"long", long},
	{"works", works},
}

func TestAgents(t *testing.T) {
	t.Parallel()
	h := serve(t)
	for _, k := range kinds {
		f := beginFaulty(h.world(t, k))
		t.Run("faulty/"+k.name, func(t *testing.T) {
			t.Parallel()
			f.end(t)
		})
	}
	for _, p := range promises {
		for _, k := range kinds {
			t.Run(p.name+"/"+k.name, func(t *testing.T) {
				t.Parallel()
				p.hold(h.world(t, k))
			})
		}
	}
}
