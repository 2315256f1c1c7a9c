package cli_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint/internal/cli"
	"github.com/stint-dev/stint/internal/config"
)

// oneRun is a server with one run, which continues until a request cancels it or the
// method release completes it.
type oneRun struct {
	ended     chan struct{}
	end       sync.Once
	cancelled bool
}

func newOneRun() *oneRun { return &oneRun{ended: make(chan struct{})} }

func (o *oneRun) release() { o.end.Do(func() { close(o.ended) }) }

func (o *oneRun) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.Method + " " + r.URL.Path {
	case "POST /v1/runs":
		fmt.Fprint(w, `{"id":"run_1","status":"pending"}`)
	case "POST /v1/runs/run_1/cancel":
		o.end.Do(func() { o.cancelled = true; close(o.ended) })
		fmt.Fprint(w, `{"id":"run_1","status":"cancelled"}`)
	case "GET /v1/runs/run_1":
		fmt.Fprintf(w, `{"id":"run_1","status":%q,"sessionId":"sess_1"}`, o.status())
	case "GET /v1/runs/run_1/events":
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, "event: status\ndata: {\"status\":\"running\"}\nid: 1\n\nevent: output\ndata: {\"content\":\"no line end\",\"stream\":\"stdout\"}\nid: 2\n\n")
		w.(http.Flusher).Flush()
		select {
		case <-o.ended:
			fmt.Fprintf(w, "event: complete\ndata: {\"status\":%q}\nid: 3\n\n", o.status())
		case <-r.Context().Done():
		}
	default:
		http.NotFound(w, r)
	}
}

func (o *oneRun) status() string {
	select {
	case <-o.ended:
		if o.cancelled {
			return "cancelled"
		}
		return "completed"
	default:
		return "running"
	}
}

func TestInterruptAsksOnTerminal(t *testing.T) {
	t.Parallel()
	const question = "Cancel run_1? y cancels it"
	tests := map[string]struct {
		act       func(*testing.T, *testCLI, *oneRun)
		code      int
		cancelled bool
		shows     string
	}{
		"yes": {func(_ *testing.T, p *testCLI, _ *oneRun) { io.WriteString(p.keys, "y\n") }, 130, true, "Cancelling run_1"},
		"no": {func(_ *testing.T, p *testCLI, o *oneRun) {
			io.WriteString(p.keys, "\n")
			o.release()
		}, 0, false, "completed"},
		"again": {func(_ *testing.T, p *testCLI, _ *oneRun) { p.interrupts <- cli.Stop }, 130, false, "run_1 continues. Follow it again with: stint runs events run_1"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := newOneRun()
			p := startCLI(t, o, 0, 1, 2)
			p.start("run", "a", "p")
			p.out.await(t, "no line end")
			p.interrupts <- cli.Stop
			p.err.await(t, question)
			tt.act(t, p, o)
			if code := p.exit(t); code != tt.code {
				t.Errorf("exit code %d, want %d", code, tt.code)
			}
			if o.cancelled != tt.cancelled || !strings.Contains(p.err.String(), tt.shows) {
				t.Errorf("cancelled %v, want %v; screen:\n%s", o.cancelled, tt.cancelled, p.err)
			}
		})
	}
}

func TestInterruptCancelsWithoutTerminal(t *testing.T) {
	t.Parallel()
	o := newOneRun()
	p := startCLI(t, o)
	p.start("run", "a", "p")
	p.out.await(t, "no line end")
	p.interrupts <- cli.Stop
	if code := p.exit(t); code != 130 || !o.cancelled {
		t.Errorf("exit code %d, cancelled %v", code, o.cancelled)
	}
	if strings.Contains(p.err.String(), "?") {
		t.Errorf("a question was asked:\n%s", p.err)
	}
}

// A closed terminal does not cancel the run.
func TestHangUpKeepsRun(t *testing.T) {
	t.Parallel()
	for name, terminals := range map[string][]int{"terminal": {0, 1, 2}, "no terminal": nil} {
		o := newOneRun()
		p := startCLI(t, o, terminals...)
		p.start("run", "a", "p")
		p.out.await(t, "no line end")
		p.interrupts <- cli.HangUp
		if code := p.exit(t); code != 130 || o.cancelled {
			t.Errorf("%s: exit code %d, cancelled %v", name, code, o.cancelled)
		}
		if !strings.Contains(p.err.String(), "run_1 continues") || strings.Contains(p.err.String(), "?") {
			t.Errorf("%s: screen:\n%s", name, p.err)
		}
	}
}

func TestTerminalColours(t *testing.T) {
	t.Parallel()
	const faint, reset = "\x1b[2m", "\x1b[0m"
	tests := map[string]struct {
		terminals []int
		environ   map[string]string
		want      string
	}{
		"terminal":     {[]int{1, 2}, nil, faint + "run_1" + reset + " \x1b[1mrunning" + reset + "\n\nrun         run_1\nstatus      \x1b[32mcompleted" + reset + "\nsession     sess_1\n"},
		"NO_COLOR":     {[]int{1, 2}, map[string]string{"NO_COLOR": "1"}, "run_1 running\n\nrun         run_1\nstatus      completed\nsession     sess_1\n"},
		"dumb":         {[]int{1, 2}, map[string]string{"TERM": "dumb"}, "run_1 running\n\nrun         run_1\nstatus      completed\nsession     sess_1\n"},
		"output piped": {[]int{2}, map[string]string{"NO_COLOR": "1"}, "run_1 running\nrun         run_1\nstatus      completed\nsession     sess_1\n"},
		"no terminal":  {nil, nil, "run         run_1\nstatus      completed\nsession     sess_1\n"},
		"only stdout":  {[]int{1}, nil, "\nrun         run_1\nstatus      completed\nsession     sess_1\n"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := newOneRun()
			o.release()
			p := startCLI(t, o, tt.terminals...)
			maps.Copy(p.environ, tt.environ)
			p.start("run", "a", "p")
			if code := p.exit(t); code != 0 {
				t.Errorf("exit code %d", code)
			}
			if diff := cmp.Diff(tt.want, p.err.String()); diff != "" {
				t.Errorf("standard error (-want +got):\n%s", diff)
			}
			if got := p.out.String(); got != "no line end" {
				t.Errorf("standard output is %q", got)
			}
		})
	}
}

// pushServer accepts any archive for a volume and does not support chunks.
func pushServer(t *testing.T) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasPrefix(r.URL.Path, "/v1/chunks"):
			w.WriteHeader(http.StatusNotFound)
		case r.Method == http.MethodGet:
			fmt.Fprint(w, `{"data":[{"id":"vol_1","name":"v"}],"pagination":{"hasMore":false,"nextCursor":null}}`)
		default:
			if _, err := io.Copy(io.Discard, r.Body); err != nil {
				t.Errorf("read the archive: %v", err)
			}
			w.WriteHeader(http.StatusCreated)
			fmt.Fprint(w, `{"id":"v1_x","volumeId":"vol_1","size":7,"fileCount":1}`)
		}
	})
}

func TestProgressNeedsTerminal(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		terminals []int
		args      []string
		want      bool
	}{
		"terminal":    {[]int{2}, nil, true},
		"no terminal": {nil, nil, false},
		"json":        {[]int{2}, []string{"--json"}, false},
	} {
		p := startCLI(t, pushServer(t), tt.terminals...)
		if err := os.WriteFile(filepath.Join(p.env.Dir, "f"), []byte("content"), 0o600); err != nil {
			t.Fatal(err)
		}
		p.start(append([]string{"volume", "push", "v", "."}, tt.args...)...)
		if code := p.exit(t); code != 0 {
			t.Errorf("%s: exit code %d:\n%s", name, code, p.err)
		}
		const line = "\r\x1b[Kpushed 7 B of 7 B (100%), 7 B/s\r\x1b[K"
		if got := strings.Contains(p.err.String(), line); got != tt.want {
			t.Errorf("%s: progress shown: %v, want %v\n%q", name, got, tt.want, p.err)
		}
	}
}

func TestSecretPromptHidesInput(t *testing.T) {
	t.Parallel()
	var body struct{ Value string }
	p := startCLI(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			t.Error(err)
		}
		fmt.Fprint(w, `{"name":"K"}`)
	}), 0, 2)
	p.start("secret", "set", "K")
	if code := p.exit(t); code != 0 || body.Value != "typed" {
		t.Errorf("exit code %d, value %q", code, body.Value)
	}
	if got := p.err.String(); !strings.Contains(got, "Value of K (not shown): ") || strings.Contains(got, "typed") {
		t.Errorf("screen:\n%s", got)
	}
}

// TestInterruptEndsHiddenPrompt checks that one Ctrl-C ends a prompt.
func TestInterruptEndsHiddenPrompt(t *testing.T) {
	t.Parallel()
	p := startCLI(t, http.NotFoundHandler(), 0, 2)
	p.env.ReadPassword = func(ctx context.Context, ask func()) ([]byte, error) {
		ask()
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	p.start("secret", "set", "K")
	p.err.await(t, "(not shown): ")
	p.interrupts <- cli.Stop
	if code := p.exit(t); code != 130 || !strings.HasSuffix(p.err.String(), "(not shown): \nstint: interrupted\n") {
		t.Errorf("exit code %d, screen:\n%s", code, p.err)
	}
}

// TestInterruptEndsReading checks that an interrupt ends a command that reads its input.
func TestInterruptEndsReading(t *testing.T) {
	t.Parallel()
	for _, args := range []string{"run a -", "continue sess_1 -", "secret set K"} {
		p := startCLI(t, http.NotFoundHandler())
		p.start(strings.Fields(args)...)
		if _, err := io.WriteString(p.keys, "x"); err != nil { // returns when the command reads
			t.Fatal(err)
		}
		go func() { p.interrupts <- cli.Stop }()
		if code := p.exit(t); code != 130 || p.err.String() != "stint: interrupted\n" {
			t.Errorf("%s: exit code %d:\n%s", args, code, p.err)
		}
	}
}

// TestEmptyListsSaySo checks that an empty list prints a message on standard error only.
func TestEmptyListsSaySo(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"runs list":                     "No runs.\n",
		"runs list --session sess_none": "No runs match.\n",
		"runs list --json":              "",
		"runs logs run_1":               "No log entries.\n",
		"sessions list":                 "No sessions.\n",
		"artifact list":                 "No artifacts.\n",
		"secret list":                   "No secrets.\n",
	} {
		p := startCLI(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, `{"data":[],"pagination":{"hasMore":false,"nextCursor":null}}`)
		}))
		p.start(strings.Fields(args)...)
		if code := p.exit(t); code != 0 || p.out.String() != "" || p.err.String() != want {
			t.Errorf("stint %s: exit code %d, output %q, messages %q", args, code, p.out, p.err)
		}
	}
}

func TestServeDrains(t *testing.T) {
	t.Parallel()
	for name, drains := range map[string]bool{"drained": true, "left": false} {
		p := startCLI(t, http.NotFoundHandler())
		drained := make(chan struct{})
		t.Cleanup(func() {
			if !drains {
				close(drained)
			}
		})
		p.env.Serve = func(ctx context.Context, _ config.Config, ready func(cli.ServerInfo)) error {
			ready(cli.ServerInfo{URL: "http://here"})
			<-ctx.Done()
			<-drained
			return nil
		}
		p.start("serve", "--drain", "5s")
		p.err.await(t, "Stint serves at http://here")
		p.interrupts <- cli.Stop
		p.err.await(t, "active runs may continue for 5s")
		want := 130
		if drains {
			want = 0
			close(drained)
		} else {
			p.interrupts <- cli.Stop
		}
		if code := p.exit(t); code != want {
			t.Errorf("%s: exit code %d, want %d", name, code, want)
		}
	}
}

func TestErrorDetailsAreListed(t *testing.T) {
	t.Parallel()
	p := startCLI(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Request-Id", "req_7")
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprint(w, `{"error":{"type":"invalid_request_error","code":"invalid_parameter","message":"One. Two.","details":[{"code":"c","message":"One."},{"code":"c","message":"Two."}]}}`)
	}))
	p.start("runs", "show", "r", "-v")
	if code := p.exit(t); code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}
	if diff := cmp.Diff("stint: several things are wrong:\n  - One.\n  - Two.\nrequest req_7\n", p.err.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestTableEscapesCells(t *testing.T) {
	t.Parallel()
	p := startCLI(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"data":[{"id":"run_1","agentName":"a","status":"failed","prompt":"two\nlines\tand \u001b[31mred","createdAt":"2026-01-02T03:04:05.000Z","startedAt":"2026-01-02T03:04:05.000Z","completedAt":"2026-01-02T03:05:06.500Z"}],"pagination":{"hasMore":false,"nextCursor":null}}`)
	}))
	p.start("runs", "list")
	if code := p.exit(t); code != 0 {
		t.Errorf("exit code %d", code)
	}
	want := "ID     AGENT  STATUS  CREATED                   TOOK  PROMPT\n" +
		"run_1  a      failed  2026-01-02T03:04:05.000Z  1m2s  two lines and  [31mred\n"
	if diff := cmp.Diff(want, p.out.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestDurationsAreReadable(t *testing.T) {
	t.Parallel()
	ends := map[string]string{"05.012": "12ms", "05.999": "999ms", "06.44": "1.4s", "07.96": "3.0s"}
	p := startCLI(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		var rows []string
		for end := range ends {
			rows = append(rows, fmt.Sprintf(`{"id":"run_1","agentName":"a","status":"failed","prompt":"p","createdAt":"2026-01-02T03:04:05.000Z","startedAt":"2026-01-02T03:04:05.000Z","completedAt":"2026-01-02T03:04:%sZ"}`, end))
		}
		fmt.Fprintf(w, `{"data":[%s],"pagination":{"hasMore":false,"nextCursor":null}}`, strings.Join(rows, ","))
	}))
	p.start("runs", "list")
	p.exit(t)
	for _, want := range ends {
		if !strings.Contains(p.out.String(), " "+want+" ") {
			t.Errorf("%s is missing:\n%s", want, p.out)
		}
	}
}
