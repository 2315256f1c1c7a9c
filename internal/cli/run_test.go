package cli_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestRunSendsLimits checks that the flags of limits become members of the request.
func TestRunSendsLimits(t *testing.T) {
	t.Parallel()
	for _, args := range []string{"run agent p", "continue sess_01k00000000000000000000000 p", "resume chk_01k00000000000000000000000 p"} {
		var body map[string]any
		p := startCLI(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodPost {
				return
			}
			raw, _ := io.ReadAll(r.Body)
			if err := json.Unmarshal(raw, &body); err != nil {
				t.Error(err)
			}
			fmt.Fprint(w, `{"id":"run_1","status":"pending"}`)
		}))
		p.start(append(strings.Fields(args), "--detach", "--max-tokens", "1000", "--max-cost", "0.5", "--max-turns", "3", "--model", "fast", "--timeout", "90s")...)
		if code := p.exit(t); code != 0 {
			t.Errorf("%s: exit code %d:\n%s", args, code, p.err)
		}
		want := map[string]any{"maxTokens": 1000.0, "maxCostUsd": 0.5, "maxTurns": 3.0}
		if diff := cmp.Diff(want, body["limits"]); diff != "" || body["model"] != "fast" || body["timeout"] != "1m30s" {
			t.Errorf("%s: limits (-want +got):\n%s\n%v", args, diff, body)
		}
	}
}

// TestExitCodeOfAgent checks the exit codes with and without --exit-code.
func TestExitCodeOfAgent(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		status, exitCode string
		plain, passed    int
	}{
		{"completed", "0", 0, 0},
		{"failed", "7", 1, 7},
		{"failed", "0", 1, 1}, // for example, the result does not match the schema
		{"failed", "null", 1, 1},
		{"timeout", "143", 124, 124},
		{"cancelled", "143", 130, 130},
	} {
		for _, flag := range []string{"", "--exit-code"} {
			p := startCLI(t, &endedRun{status: tt.status, reads: []string{`,"exitCode":` + tt.exitCode}})
			p.start(strings.Fields("run a p " + flag)...)
			want := tt.plain
			if flag != "" {
				want = tt.passed
			}
			if code := p.exit(t); code != want {
				t.Errorf("%s with %s, %s: exit code %d, want %d", tt.status, tt.exitCode, flag, code, want)
			}
		}
	}
}

// TestCancelNamesFiles checks that a cancelled run's files are named once they are stored.
func TestCancelNamesFiles(t *testing.T) {
	t.Parallel()
	p := startCLI(t, &endedRun{status: "cancelled", reads: []string{runStarted, runStarted, runKept}})
	p.start("run", "a", "p")
	p.exit(t)
	for _, want := range []string{"\ncheckpoint  chk_1\n", "stint artifact pull out@v1_a DIR\n", "stint resume chk_1 PROMPT\n"} {
		if !strings.Contains(p.err.String(), want) {
			t.Errorf("%q is missing:\n%s", want, p.err)
		}
	}
}
