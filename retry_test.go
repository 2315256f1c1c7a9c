package stint_test

import (
	"testing"
	"time"

	"github.com/stint-dev/stint"
)

func TestRetriesAfter(t *testing.T) {
	lost, exit := stint.ReasonWorkerLost, stint.ReasonExitCode
	for name, c := range map[string]struct {
		r       *stint.Retries
		reason  stint.Reason
		attempt int
		pause   time.Duration
		ok      bool
	}{
		"no retries":                  {nil, lost, 1, 0, false},
		"max is 0":                    {&stint.Retries{}, lost, 1, 0, false},
		"first":                       {&stint.Retries{Max: 2}, lost, 1, time.Second, true},
		"second":                      {&stint.Retries{Max: 2}, lost, 2, 2 * time.Second, true},
		"used up":                     {&stint.Retries{Max: 2}, lost, 3, 0, false},
		"another reason":              {&stint.Retries{Max: 2}, exit, 1, 0, false},
		"named reason":                {&stint.Retries{Max: 2, On: []stint.Reason{exit}}, exit, 1, time.Second, true},
		"reason replaces the default": {&stint.Retries{Max: 2, On: []stint.Reason{exit}}, lost, 1, 0, false},
		"default limit of the pause":  {&stint.Retries{Max: 10}, lost, 10, time.Minute, true},
		"own backoff":                 {&stint.Retries{Max: 9, Backoff: &stint.Backoff{Initial: "100ms", Factor: 3, Max: "500ms"}}, lost, 2, 300 * time.Millisecond, true},
		"own limit of the pause":      {&stint.Retries{Max: 9, Backoff: &stint.Backoff{Initial: "100ms", Factor: 3, Max: "500ms"}}, lost, 3, 500 * time.Millisecond, true},
		"no pause":                    {&stint.Retries{Max: 9, Backoff: &stint.Backoff{Initial: "0s"}}, lost, 9, 0, true},
		"long first pause":            {&stint.Retries{Max: 9, Backoff: &stint.Backoff{Initial: "5m"}}, lost, 2, 5 * time.Minute, true},
		"huge factor":                 {&stint.Retries{Max: 10, Backoff: &stint.Backoff{Factor: 1e300}}, lost, 10, time.Minute, true},
	} {
		t.Run(name, func(t *testing.T) {
			if pause, ok := c.r.After(c.reason, c.attempt); pause != c.pause || ok != c.ok {
				t.Errorf("After(%s, %d) = %s, %v; want %s, %v", c.reason, c.attempt, pause, ok, c.pause, c.ok)
			}
		})
	}
}
