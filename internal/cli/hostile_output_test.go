package cli_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// hostileServer is the handler of a server with a run whose output, log, and error try to
// control the terminal.
func hostileServer(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/v1/runs/run_1/events":
		w.Header().Set("Content-Type", "text/event-stream")
		for i, content := range []string{`a\u001b]0;ow`, `ned\u0007 \u001b[3`, `1mred\u001b[2J\n`} {
			fmt.Fprintf(w, "event: output\ndata: {\"content\":\"%s\",\"stream\":\"stdout\"}\nid: %d\n\n", content, i+1)
		}
		fmt.Fprint(w, "event: error\ndata: {\"message\":\"bad\\u001b]52;c;eA==\\u0007\",\"code\":\"x\"}\nid: 4\n\n")
		fmt.Fprint(w, "event: complete\ndata: {\"status\":\"failed\"}\nid: 5\n\n")
	case "/v1/runs/run_1/logs":
		fmt.Fprint(w, `{"data":[{"timestamp":"2026-01-02T15:04:05.000Z","type":"agent","level":"info","message":"x\u001b[31mred\u001b[2J\r","metadata":{}}],"pagination":{"hasMore":false,"nextCursor":null}}`)
	case "/v1/runs/run_1":
		fmt.Fprint(w, `{"id":"run_1","status":"failed","prompt":"p\u001b[2J","sessionId":"sess_1","error":"bad\u001b[2J"}`)
	case "/v1/artifacts":
		fmt.Fprint(w, `{"data":[{"id":"art_1","name":"a","currentVersionId":"v1_a"}],"pagination":{"hasMore":false,"nextCursor":null}}`)
	case "/v1/artifacts/art_1/versions":
		fmt.Fprint(w, `{"data":[{"id":"v1_a","createdBy":"user:ann","createdAt":"2026-01-02T15:04:05.000Z","message":"x\n● v2 (current)\u001b[2J"}],"pagination":{"hasMore":false,"nextCursor":null}}`)
	default:
		fmt.Fprint(w, "file\x1b[2J\n")
	}
}

func TestOutputCannotControlTerminal(t *testing.T) {
	t.Parallel()
	const log = "2026-01-02T15:04:05.000Z agent   info  "
	for _, tt := range []struct {
		args             string
		terminal         bool
		wantOut, wantErr string
	}{
		{"runs events run_1", true, "a^[]0;owned^G \x1b[31mred^[[2J\n\x1b[0m", "\x1b[31mbad^[]52;c;eA==^G\x1b[0m\n"},
		{"runs events run_1", false, "a\x1b]0;owned\a \x1b[31mred\x1b[2J\n", "bad\x1b]52;c;eA==\a\n"},
		{"runs events run_1 --raw", true, "a\x1b]0;owned\a \x1b[31mred\x1b[2J\n", "\x1b[31mbad\x1b]52;c;eA==\a\x1b[0m\n"},
		{"logs run_1", true, log + "x\x1b[31mred^[[2J \n\x1b[0m", ""},
		{"logs run_1", false, log + "x\x1b[31mred\x1b[2J \n", ""},
		{"artifact versions a --graph", false, "● v1 (current)  2026-01-02T15:04:05.000Z  user:ann  x ● v2 (current) [2J\n", ""},
		{"artifact cat a f", true, "file^[[2J\n", ""},
		{"artifact cat a f", false, "file\x1b[2J\n", ""},
	} {
		p := startCLI(t, http.HandlerFunc(hostileServer))
		if tt.terminal {
			p = startCLI(t, http.HandlerFunc(hostileServer), 1, 2)
		}
		p.start(strings.Fields(tt.args)...)
		if code := p.exit(t); code != 0 {
			t.Errorf("%s: exit code %d", tt.args, code)
		}
		if diff := cmp.Diff([]string{tt.wantOut, tt.wantErr}, []string{p.out.String(), p.err.String()}); diff != "" {
			t.Errorf("%s, terminal %v (-want +got):\n%s", tt.args, tt.terminal, diff)
		}
	}
	p := startCLI(t, http.HandlerFunc(hostileServer), 1, 2)
	p.start("runs", "show", "run_1")
	p.exit(t)
	if out := p.out.String(); strings.Contains(out, "\x1b") || !strings.Contains(out, "bad^[[2J") {
		t.Errorf("runs show:\n%q", out)
	}
}
