package contract_test

import (
	"testing"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/testkit/apitest"
)

// TestWalk sends generated requests to every operation of the contract, with each
// database.
func TestWalk(t *testing.T) {
	for name, database := range databases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := serve(t, database(t)).tenant(t)
			v := w.volume("data", object{"a": "1", "b/c": "2"})
			r := w.run(object{"prompt": "echo x > out", "artifactName": "out", "volumes": object{"data": "latest"}})
			failed := w.awaitStatus(w.create(object{"prompt": "exit 1"}).ID, stint.Failed)
			running := w.startRun(object{"prompt": "sleep 600"})
			pending := w.create(object{"sessionId": running.SessionID})
			token := w.newToken(object{})
			report := apitest.Walk(t, w.host.url, w.token, apitest.Seeds{
				IDs: []string{
					r.ID, failed.ID, running.ID, pending.ID, r.SessionID, *r.CheckpointID, w.shell.ID, w.shell.CurrentVersionID,
					v.ID, v.VolumeID, *r.ArtifactVersion, w.tree("artifacts", "out").ID, token.ID,
				},
				Names: []string{"shell"}, Paths: []string{"a", "b/c", "out"}, Requests: 1500, Seed: uint64(len(name)),
			})
			answered := 0
			for _, statuses := range report {
				for status, n := range statuses {
					if status < 400 {
						answered += n
					}
				}
			}
			if answered < 300 {
				t.Errorf("only %d requests of the walk succeeded: %v", answered, report)
			}
		})
	}
}
