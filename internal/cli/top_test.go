package cli_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint/internal/cli"
)

// activityServer is the handler of a server with one running and two waiting runs. The
// number of running runs grows with each request.
type activityServer struct{ requests atomic.Int32 }

func (s *activityServer) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	fmt.Fprintf(w, `{"at":"2026-01-02T03:05:06.000Z","running":%d,"pending":2,"data":[
		{"id":"run_01kdyvbmk80000000000000001","agentName":"reviewer","status":"running","prompt":"look\u001b[2J at it","createdAt":"2026-01-02T03:04:00.000Z","startedAt":"2026-01-02T03:04:05.000Z",
		 "metrics":{"timestamp":"2026-01-02T03:05:05.000Z","cpuPercent":142.1,"memoryUsedMb":120,"memoryTotalMb":2048,"diskUsedMb":1,"diskTotalMb":2},
		 "usage":{"inputTokens":1200,"outputTokens":34,"modelCalls":2,"costUsd":0.018}},
		{"id":"run_01kdyvbmk80000000000000002","agentName":"fixer","status":"pending","prompt":"p","createdAt":"2026-01-02T03:05:05.988Z","metrics":null,"usage":null,
		 "queue":{"position":1,"reason":"capacity","message":"The workers execute 2 runs, the maximum."}},
		{"id":"run_01kdyvbmk80000000000000003","agentName":"fixer","status":"pending","prompt":"q","createdAt":"2026-01-02T03:05:06.000Z","metrics":null,"usage":null}
	]}`, s.requests.Add(1))
}

const activityTable = `RUN                             AGENT     STATUS   TIME  CPU     MEMORY     TOKENS  COST     PROMPT-OR-REASON
run_01kdyvbmk80000000000000001  reviewer  running  1m1s  142.1%  120.0 MiB  1234    $0.0180  look [2J at it
run_01kdyvbmk80000000000000002  fixer     pending  12ms  -       -          -       -        position 1, capacity: The workers execute 2 runs, the maximum.
run_01kdyvbmk80000000000000003  fixer     pending  0s    -       -          -       -        q
`

func TestTopPrintsOnce(t *testing.T) {
	t.Parallel()
	for args, terminals := range map[string][]int{"top": nil, "top --once": {0, 1, 2}} {
		p := startCLI(t, &activityServer{}, terminals...)
		p.start(strings.Fields(args)...)
		if code := p.exit(t); code != 0 || p.err.String() != "" {
			t.Errorf("%s: exit code %d: %s", args, code, p.err)
		}
		if diff := cmp.Diff(activityTable, p.out.String()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", args, diff)
		}
	}
	p := startCLI(t, &activityServer{})
	p.start("top", "--json")
	if code := p.exit(t); code != 0 || strings.Count(p.out.String(), "\n") != 1 || !strings.Contains(p.out.String(), `"running":1,"pending":2,"data":[{"id":"run_`) {
		t.Errorf("exit code %d:\n%s", code, p.out)
	}
	p = startCLI(t, &activityServer{})
	p.start("top", "--limit", "0")
	if code := p.exit(t); code != 2 {
		t.Errorf("--limit 0: exit code %d", code)
	}
}

// TestTopWatches checks that the table on a terminal is updated, fits the terminal, and
// leaves the terminal as it was.
func TestTopWatches(t *testing.T) {
	t.Parallel()
	ends := map[string]func(p *testCLI){
		"q":         func(p *testCLI) { io.WriteString(p.keys, "xq") },
		"Ctrl-C":    func(p *testCLI) { io.WriteString(p.keys, "\x03") },
		"interrupt": func(p *testCLI) { p.interrupts <- cli.Stop },
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			restored := false
			p := startCLI(t, &activityServer{}, 0, 1, 2)
			p.env.TerminalSize = func() (int, int) { return 60, 5 }
			p.env.RawTerminal = func() (func(), error) { return func() { restored = true }, nil }
			p.start("top")
			p.out.await(t, "2 running, 2 waiting")
			end(p)
			if code := p.exit(t); code != 0 || !restored {
				t.Errorf("exit code %d, restored %v", code, restored)
			}
			got := p.out.String()
			if !strings.HasPrefix(got, "\x1b[?1049h") || !strings.HasSuffix(got, "\x1b[?1049l") {
				t.Errorf("screen %q", got)
			}
			first, _, _ := strings.Cut(got, "\x1b[J")
			lines := strings.Split(first, "\r\n")
			if len(lines) != 5 || !strings.HasPrefix(lines[3], "run_01kdyvbmk8000000  reviewer  running  1m1s  142.1%") || lines[4] != "and 2 other runs\x1b[K" {
				t.Errorf("lines %q", lines)
			}
		})
	}
}
