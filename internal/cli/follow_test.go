package cli_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stint-dev/stint/internal/cli"
	"github.com/stint-dev/stint/internal/files/treewire"
)

// endedRun is a server with a run that has ended.
type endedRun struct {
	status string
	reads  []string // more JSON fields of the run, one element per GET; the last is repeated
	tree   func(http.ResponseWriter, *http.Request)

	read atomic.Int32
}

func (e *endedRun) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.Method + " " + r.URL.Path {
	case "POST /v1/runs":
		fmt.Fprint(w, `{"id":"run_1","status":"pending"}`)
	case "GET /v1/runs/run_1/events":
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "event: complete\ndata: {\"status\":%q}\nid: 1\n\n", e.status)
	case "GET /v1/runs/run_1":
		n := min(int(e.read.Add(1)), len(e.reads))
		fmt.Fprintf(w, `{"id":"run_1","status":%q,"sessionId":"sess_1"%s}`, e.status, e.reads[n-1])
	case "GET /v1/artifacts":
		fmt.Fprint(w, `{"data":[{"id":"art_1","name":"out"}],"pagination":{"hasMore":false,"nextCursor":null}}`)
	case "GET /v1/artifacts/art_1/versions/v1_a/tree":
		e.tree(w, r)
	default:
		http.NotFound(w, r)
	}
}

const (
	runStarted = `,"startedAt":"2026-01-02T03:04:05.000Z"`
	runKept    = runStarted + `,"checkpointId":"chk_1","artifactName":"out","artifactVersion":"v1_a"`
)

func emptyTree(w http.ResponseWriter, _ *http.Request) {
	if out, err := treewire.NewTreeWriter(w); err == nil {
		_ = out.Close() // after an error, the client reports an incomplete tree
	}
}

func noTree(w http.ResponseWriter, _ *http.Request) {
	w.WriteHeader(http.StatusNotFound)
	fmt.Fprint(w, `{"error":{"type":"invalid_request_error","code":"resource_not_found","message":"It is gone."}}`)
}

// If a run did not complete, its status determines the exit code, even if the pull fails.
// If a run completed but the pull fails, the exit code is 1.
func TestPullKeepsExitCode(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		run   *endedRun
		code  int
		shows string
	}{
		"completed":                       {&endedRun{status: "completed", reads: []string{runKept}, tree: emptyTree}, 0, "Wrote 0 files"},
		"completed, without a checkpoint": {&endedRun{status: "completed", reads: []string{runKept}, tree: noTree}, 1, "stint: It is gone."},
		"timeout, without a checkpoint":   {&endedRun{status: "timeout", reads: []string{runKept}, tree: noTree}, 124, "stint: It is gone."},
		"cancelled in the queue":          {&endedRun{status: "cancelled", reads: []string{""}}, 130, "stint: run_1 stored no artifact"},
		"cancelled, kept later":           {&endedRun{status: "cancelled", reads: []string{runStarted, runStarted, runKept}, tree: emptyTree}, 130, "Wrote 0 files"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := startCLI(t, tt.run)
			p.start("run", "a", "p", "--artifact", "out", "--pull", "there")
			if code := p.exit(t); code != tt.code || !strings.Contains(p.err.String(), tt.shows) {
				t.Errorf("exit code %d, want %d, with %q:\n%s", code, tt.code, tt.shows, p.err)
			}
		})
	}
}

func TestInterruptEndsPull(t *testing.T) {
	t.Parallel()
	pulling := make(chan struct{})
	p := startCLI(t, &endedRun{status: "completed", reads: []string{runKept}, tree: func(_ http.ResponseWriter, r *http.Request) {
		close(pulling)
		<-r.Context().Done()
	}})
	p.start("run", "a", "p", "--artifact", "out", "--pull", "there")
	<-pulling
	p.interrupts <- cli.Stop
	if code := p.exit(t); code != 130 || !strings.Contains(p.err.String(), "interrupted") {
		t.Errorf("exit code %d:\n%s", code, p.err)
	}
}
