package worker_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/feed"
	"github.com/stint-dev/stint/internal/sandbox"
	"github.com/stint-dev/stint/internal/sandbox/sandboxtest/fake"
)

// TestMemoryWarning checks that the system log has a warning if a process was killed for
// the memory limit and the run did not end for this reason.
func TestMemoryWarning(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		kills int64
		cause sandbox.Cause
		want  int
	}{
		"the agent goes on":  {2, sandbox.Exited, 1},
		"the agent ends":     {1, sandbox.OOMKilled, 0},
		"nothing was killed": {0, sandbox.Exited, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, func(_ context.Context, p *fake.Proc) sandbox.Exit {
				p.SetUsage(sandbox.Usage{OOMKills: c.kills})
				return sandbox.Exit{Cause: c.cause}
			})
			w.agent(`{"framework":"shell","resources":{"memory":"64MiB"}}`)
			r := w.ended(w.create(stint.NewRun{Agent: "agent"}).ID)
			entries, _, err := w.feed.Logs(t.Context(), r.ID, feed.LogQuery{Type: stint.LogSystem, Limit: 100})
			check(t, err)
			warnings := 0
			for _, e := range entries {
				if e.Level == "warn" && strings.Contains(e.Message, "the memory limit of 64") {
					warnings++
				}
			}
			if warnings != c.want {
				t.Errorf("%d warnings, want %d, in %+v", warnings, c.want, entries)
			}
		})
	}
}
