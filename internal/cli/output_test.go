package cli_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// itemServer is the handler of a server with one ended run. The output of the run consists
// of items of different kinds.
func itemServer(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/v1/runs/run_1/events":
		w.Header().Set("Content-Type", "text/event-stream")
		for i, data := range []string{
			`{"content":"I look","item":{"kind":"message","messageId":"m1","delta":true}}`,
			`{"content":" at it","item":{"kind":"message","messageId":"m1","delta":true}}`,
			`{"content":"$ ls\n","item":{"kind":"tool_call","tool":{"id":"t1","name":"Bash"}}}`,
			`{"content":"a\nb\n","item":{"kind":"tool_result","tool":{"id":"t1","status":"completed"}}}`,
			`{"content":"hm\n","item":{"kind":"reasoning"}}`,
			`{"content":"again\n","item":{"kind":"notice","code":"api_retry"}}`,
			`{"content":"Done.\n","item":{"kind":"message"}}`,
		} {
			fmt.Fprintf(w, "event: output\ndata: %s\nid: %d\n\n", data, i+1)
		}
		fmt.Fprint(w, "event: complete\ndata: {\"status\":\"completed\"}\nid: 8\n\n")
	case "/v1/runs/run_1":
		fmt.Fprint(w, `{"id":"run_1","status":"completed","sessionId":"sess_1",
			"usage":{"inputTokens":120,"outputTokens":30,"cacheReadTokens":100,"modelCalls":2,"costUsd":0.05},"result":"Done.\nReally\u001b[2J."}`)
	case "/v1/runs/run_1/logs":
		fmt.Fprint(w, `{"data":[
			{"timestamp":"2026-01-02T15:04:05.000Z","type":"agent","level":"debug","message":"{\"type\":\"result\"}","metadata":{"native":true}},
			{"timestamp":"2026-01-02T15:04:05.000Z","type":"agent","level":"info","message":"Done.","metadata":{"kind":"message"}}
		],"pagination":{"hasMore":false,"nextCursor":null}}`)
	}
}

func TestItemsAreStyledByKind(t *testing.T) {
	t.Parallel()
	const faint, yellow, reset = "\x1b[2m", "\x1b[33m", "\x1b[0m"
	for name, tt := range map[string]struct {
		terminals []int
		out, err  string
	}{
		"terminal": {
			[]int{1, 2},
			"I look at it" + faint + "$ ls" + reset + "\n" + faint + "a\nb" + reset + "\n" + faint + "hm" + reset + "\n" + yellow + "again" + reset + "\nDone.\n", "\n",
		},
		"pipe": {nil, "I look at it$ ls\na\nb\nhm\nagain\nDone.\n", ""},
	} {
		p := startCLI(t, http.HandlerFunc(itemServer), tt.terminals...)
		p.start("runs", "events", "run_1")
		if code := p.exit(t); code != 0 {
			t.Errorf("%s: exit code %d:\n%s", name, code, p.err)
		}
		if diff := cmp.Diff([]string{tt.out, tt.err}, []string{p.out.String(), p.err.String()}); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestRunShowsUsageAndResult(t *testing.T) {
	t.Parallel()
	p := startCLI(t, http.HandlerFunc(itemServer))
	p.start("runs", "show", "run_1")
	if code := p.exit(t); code != 0 {
		t.Errorf("exit code %d:\n%s", code, p.err)
	}
	for _, want := range []string{"120 tokens in (100 of them from the cache), 30 out, 2 calls, $0.0500\n", "\nresult\nDone.\nReally [2J.\n"} {
		if !strings.Contains(p.out.String(), want) {
			t.Errorf("%q is not in:\n%s", want, p.out)
		}
	}
}

func TestNativeLinesNeedFlag(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]bool{"": false, "--native": true, "--json": true} {
		p := startCLI(t, http.HandlerFunc(itemServer))
		p.start(append([]string{"runs", "logs", "run_1"}, strings.Fields(args)...)...)
		if code := p.exit(t); code != 0 {
			t.Errorf("%q: exit code %d:\n%s", args, code, p.err)
		}
		if out := p.out.String(); strings.Contains(out, "result") != want || !strings.Contains(out, "Done.") {
			t.Errorf("logs %s:\n%s", args, out)
		}
	}
}
