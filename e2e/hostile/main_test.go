package hostile_test

import (
	"syscall"
	"testing"

	"github.com/stint-dev/stint/e2e/installation"
)

// isolations are the isolators under test.
var isolations = []string{"namespace", "gvisor"}

func TestMain(m *testing.M) {
	installation.Parallel(6) // these tests mostly wait
	installation.Main(m)
}

// attack is an attack by an agent. Each attack runs in a new organisation.
type attack struct {
	name string
	run  func(*tenant)
}

func TestHostile(t *testing.T) {
	for _, isolation := range isolations {
		t.Run(isolation, func(t *testing.T) {
			h := serve(t, isolation)
			t.Run("attacks", func(t *testing.T) {
				for _, group := range [][]attack{limitAttacks, escapeAttacks, outputAttacks, secretAttacks} {
					for _, a := range group {
						t.Run(a.name, func(t *testing.T) {
							t.Parallel()
							a.run(h.tenant(t))
						})
					}
				}
			})
			h.tenant(t).checkNormalRun()
			h.checkNothingLeft(t, "left by runs", h.leftByRuns)
			h.Stop(syscall.SIGTERM)
			h.checkNothingLeft(t, "left by the server", h.leftByServer)
		})
	}
}
