package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint/internal/cli"
	"github.com/stint-dev/stint/internal/config"
	"github.com/stint-dev/stint/internal/sandbox"
	"github.com/stint-dev/stint/internal/worker/agentcli"
)

// screen collects what is written, from several goroutines.
type screen struct {
	mu   sync.Mutex
	text bytes.Buffer
	grew chan struct{}
}

func newScreen() *screen { return &screen{grew: make(chan struct{}, 1)} }

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case s.grew <- struct{}{}:
	default:
	}
	return s.text.Write(p)
}

func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// await waits until the screen shows a text.
func (s *screen) await(t *testing.T, text string) {
	t.Helper()
	limit := time.After(time.Minute)
	for !strings.Contains(s.String(), text) {
		select {
		case <-s.grew:
		case <-limit:
			t.Fatalf("%q is not on the screen:\n%s", text, s)
		}
	}
}

// person is somebody at a terminal, with a server.
type person struct {
	out, err   *screen
	environ    map[string]string
	keys       io.Writer // of the keyboard
	interrupts chan cli.Interrupt
	env        cli.Env
	code       chan int
}

func sit(t *testing.T, h http.Handler, terminals ...int) *person {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	in, keys := io.Pipe()
	t.Cleanup(func() { keys.Close() })
	p := &person{
		out: newScreen(), err: newScreen(), keys: keys, interrupts: make(chan cli.Interrupt), code: make(chan int, 1),
		environ: map[string]string{"STINT_URL": s.URL, "STINT_TOKEN": "x", "HOME": t.TempDir()},
	}
	clock := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var mu sync.Mutex
	p.env = cli.Env{
		Environ: func(name string) (string, bool) { v, ok := p.environ[name]; return v, ok },
		Dir:     t.TempDir(), Stdin: in, Stdout: p.out, Stderr: p.err, Interrupts: p.interrupts,
		Now: func() time.Time {
			mu.Lock()
			defer mu.Unlock()
			clock = clock.Add(time.Second)
			return clock
		},
		IsTerminal: func(fd int) bool {
			return slices.Contains(terminals, fd)
		},
		ReadPassword: func() ([]byte, error) { return []byte("typed"), nil },
		Serve:        func(context.Context, config.Config, func(cli.Serving)) error { return nil },
		Probe:        func(context.Context, config.Config) []sandbox.Report { return nil },
		Programs:     func(context.Context) ([]agentcli.Installed, error) { return nil, nil },
	}
	return p
}

// types starts a command.
func (p *person) types(args ...string) {
	p.env.Args = args
	go func() { p.code <- cli.Main(context.Background(), p.env) }()
}

// exit waits for the end of the command.
func (p *person) exit(t *testing.T) int {
	t.Helper()
	select {
	case code := <-p.code:
		return code
	case <-time.After(time.Minute):
		t.Fatalf("the command does not end; its screens:\n%s\n%s", p.out, p.err)
		return -1
	}
}

// oneRun is a server with a run that goes on until it is cancelled or released.
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

func TestInterruptAsksOnATerminal(t *testing.T) {
	t.Parallel()
	const question = "Cancel run_1? y cancels it"
	tests := map[string]struct {
		act       func(*testing.T, *person, *oneRun)
		code      int
		cancelled bool
		shows     string
	}{
		"yes": {func(_ *testing.T, p *person, _ *oneRun) { io.WriteString(p.keys, "y\n") }, 130, true, "Cancelling run_1"},
		"no": {func(_ *testing.T, p *person, o *oneRun) {
			io.WriteString(p.keys, "\n")
			o.release()
		}, 0, false, "completed"},
		"again": {func(_ *testing.T, p *person, _ *oneRun) { p.interrupts <- cli.Stop }, 130, false, "run_1 goes on. Follow it again with: stint runs events run_1"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := newOneRun()
			p := sit(t, o, 0, 1, 2)
			p.types("run", "a", "p")
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

func TestInterruptCancelsWithoutATerminal(t *testing.T) {
	t.Parallel()
	o := newOneRun()
	p := sit(t, o)
	p.types("run", "a", "p")
	p.out.await(t, "no line end")
	p.interrupts <- cli.Stop
	if code := p.exit(t); code != 130 || !o.cancelled {
		t.Errorf("exit code %d, cancelled %v", code, o.cancelled)
	}
	if strings.Contains(p.err.String(), "?") {
		t.Errorf("a question was asked:\n%s", p.err)
	}
}

// TestAHangUpLeavesTheRun: a connection that breaks off is no wish to cancel.
func TestAHangUpLeavesTheRun(t *testing.T) {
	t.Parallel()
	for name, terminals := range map[string][]int{"terminal": {0, 1, 2}, "no terminal": nil} {
		o := newOneRun()
		p := sit(t, o, terminals...)
		p.types("run", "a", "p")
		p.out.await(t, "no line end")
		p.interrupts <- cli.HangUp
		if code := p.exit(t); code != 130 || o.cancelled {
			t.Errorf("%s: exit code %d, cancelled %v", name, code, o.cancelled)
		}
		if !strings.Contains(p.err.String(), "run_1 goes on") || strings.Contains(p.err.String(), "?") {
			t.Errorf("%s: screen:\n%s", name, p.err)
		}
	}
}

func TestColoursAndLinesOfATerminal(t *testing.T) {
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
		"stdout alone": {[]int{1}, nil, "\nrun         run_1\nstatus      completed\nsession     sess_1\n"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := newOneRun()
			o.release()
			p := sit(t, o, tt.terminals...)
			maps.Copy(p.environ, tt.environ)
			p.types("run", "a", "p")
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

// pushServer takes any archive for a volume, and knows nothing of chunks.
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

func TestProgressIsForTerminals(t *testing.T) {
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
		p := sit(t, pushServer(t), tt.terminals...)
		if err := os.WriteFile(filepath.Join(p.env.Dir, "f"), []byte("content"), 0o600); err != nil {
			t.Fatal(err)
		}
		p.types(append([]string{"volume", "push", "v", "."}, tt.args...)...)
		if code := p.exit(t); code != 0 {
			t.Errorf("%s: exit code %d:\n%s", name, code, p.err)
		}
		const line = "\r\x1b[Kpushed 7 B of 7 B (100%), 7 B/s\r\x1b[K"
		if got := strings.Contains(p.err.String(), line); got != tt.want {
			t.Errorf("%s: progress shown: %v, want %v\n%q", name, got, tt.want, p.err)
		}
	}
}

func TestSecretIsAskedForWithoutShowingIt(t *testing.T) {
	t.Parallel()
	var body struct{ Value string }
	p := sit(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			t.Error(err)
		}
		fmt.Fprint(w, `{"name":"K"}`)
	}), 0, 2)
	p.types("secret", "set", "K")
	if code := p.exit(t); code != 0 || body.Value != "typed" {
		t.Errorf("exit code %d, value %q", code, body.Value)
	}
	if got := p.err.String(); !strings.Contains(got, "Value of K (not shown): ") || strings.Contains(got, "typed") {
		t.Errorf("screen:\n%s", got)
	}
}

func TestServeDrainsThenLeaves(t *testing.T) {
	t.Parallel()
	for name, patient := range map[string]bool{"drained": true, "left": false} {
		p := sit(t, http.NotFoundHandler())
		drained := make(chan struct{})
		t.Cleanup(func() {
			if !patient {
				close(drained)
			}
		})
		p.env.Serve = func(ctx context.Context, _ config.Config, ready func(cli.Serving)) error {
			ready(cli.Serving{URL: "http://here"})
			<-ctx.Done()
			<-drained
			return nil
		}
		p.types("serve", "--drain", "5s")
		p.err.await(t, "Stint serves at http://here")
		p.interrupts <- cli.Stop
		p.err.await(t, "running runs may go on for 5s")
		want := 130
		if patient {
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

func TestFaultsOfARequestAreListed(t *testing.T) {
	t.Parallel()
	p := sit(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Request-Id", "req_7")
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprint(w, `{"error":{"type":"invalid_request_error","code":"invalid_parameter","message":"One. Two.","details":[{"code":"c","message":"One."},{"code":"c","message":"Two."}]}}`)
	}))
	p.types("runs", "show", "r", "-v")
	if code := p.exit(t); code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}
	if diff := cmp.Diff("stint: several things are wrong:\n  - One.\n  - Two.\nrequest req_7\n", p.err.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestTablesHoldTheirColumns(t *testing.T) {
	t.Parallel()
	p := sit(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"data":[{"id":"run_1","agentName":"a","status":"failed","prompt":"two\nlines\tand \u001b[31mred","createdAt":"2026-01-02T03:04:05.000Z","startedAt":"2026-01-02T03:04:05.000Z","completedAt":"2026-01-02T03:05:06.500Z"}],"pagination":{"hasMore":false,"nextCursor":null}}`)
	}))
	p.types("runs", "list")
	if code := p.exit(t); code != 0 {
		t.Errorf("exit code %d", code)
	}
	want := "ID     AGENT  STATUS  CREATED                   TOOK  PROMPT\n" +
		"run_1  a      failed  2026-01-02T03:04:05.000Z  1m2s  two lines and  [31mred\n"
	if diff := cmp.Diff(want, p.out.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestHelp keeps what every command says about itself.
func TestHelp(t *testing.T) {
	t.Parallel()
	var got strings.Builder
	var visit func(path ...string)
	visit = func(path ...string) {
		fmt.Fprintf(&got, "$ stint %s\n%s\n", strings.Join(append(path, "--help"), " "), ask(t, append(path, "--help")...))
		for line := range strings.Lines(ask(t, append(append([]string{"__complete"}, path...), "")...)) {
			name, _, isCommand := strings.Cut(line, "\t")
			if isCommand && !strings.HasPrefix(name, ":") && name != "help" && name != "completion" {
				visit(append(append([]string{}, path...), name)...)
			}
		}
	}
	visit()
	const golden = "testdata/help.golden"
	if *update {
		if err := os.WriteFile(golden, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Errorf("run with -update when this is meant (-want +got):\n%s", diff)
	}
}

// ask gives the output of a command that needs nothing.
func ask(t *testing.T, args ...string) string {
	t.Helper()
	p := sit(t, http.NotFoundHandler())
	p.types(args...)
	if code := p.exit(t); code != 0 {
		t.Fatalf("%v: exit code %d:\n%s", args, code, p.err)
	}
	return p.out.String()
}
