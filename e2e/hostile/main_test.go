package hostile_test

import (
	"syscall"
	"testing"

	"github.com/stint-dev/stint/e2e/installation"
)

// isolations are the ways to keep runs apart that must stand the attacks.
var isolations = []string{"namespace", "gvisor"}

func TestMain(m *testing.M) {
	installation.Parallel(6) // much of what these tests do is wait
	installation.Main(m)
}

// attack is one thing that agents try, from an organisation of its own.
type attack struct {
	name string
	run  func(*world)
}

func TestHostile(t *testing.T) {
	for _, isolation := range isolations {
		t.Run(isolation, func(t *testing.T) {
			h := serve(t, isolation)
			t.Run("attacks", func(t *testing.T) {
				for _, chapter := range [][]attack{limitAttacks, escapeAttacks, traceAttacks, secretAttacks} {
					for _, a := range chapter {
						t.Run(a.name, func(t *testing.T) {
							t.Parallel()
							a.run(h.world(t))
						})
					}
				}
			})
			h.world(t).honest()
			h.wantNothing(t, "what runs left", h.leftByRuns)
			h.Stop(syscall.SIGTERM)
			h.wantNothing(t, "what the server left", h.leftByServer)
		})
	}
}
