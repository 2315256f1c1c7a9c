package cli_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/cli"
	"github.com/stint-dev/stint/internal/config"
	"github.com/stint-dev/stint/internal/sandbox"
	"github.com/stint-dev/stint/internal/worker/agentcli"
)

// screenBuffer collects output. It is safe for concurrent use.
type screenBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
	grew chan struct{}
}

func newScreenBuffer() *screenBuffer { return &screenBuffer{grew: make(chan struct{}, 1)} }

func (s *screenBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case s.grew <- struct{}{}:
	default:
	}
	return s.text.Write(p)
}

func (s *screenBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// await waits until the output contains text. It fails the test after a minute.
func (s *screenBuffer) await(t *testing.T, text string) {
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

// testCLI runs one command with a test server and fake terminals.
type testCLI struct {
	out, err   *screenBuffer
	environ    map[string]string
	keys       io.Writer // the writing end of standard input
	interrupts chan cli.Interrupt
	env        cli.Env
	code       chan int
}

func startCLI(t *testing.T, h http.Handler, terminals ...int) *testCLI {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	in, keys := io.Pipe()
	t.Cleanup(func() { keys.Close() })
	p := &testCLI{
		out: newScreenBuffer(), err: newScreenBuffer(), keys: keys, interrupts: make(chan cli.Interrupt), code: make(chan int, 1),
		environ: map[string]string{"STINT_URL": s.URL, "STINT_TOKEN": "x", "HOME": t.TempDir()},
	}
	clock := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var mu sync.Mutex
	p.env = cli.Env{
		Environ:   func(name string) (string, bool) { v, ok := p.environ[name]; return v, ok },
		Variables: func() []string { return nil },
		Dir:       t.TempDir(), Stdin: in, Stdout: p.out, Stderr: p.err, Interrupts: p.interrupts,
		Now: func() time.Time {
			mu.Lock()
			defer mu.Unlock()
			clock = clock.Add(time.Second)
			return clock
		},
		IsTerminal: func(fd int) bool {
			return slices.Contains(terminals, fd)
		},
		ReadPassword: func(_ context.Context, ask func()) ([]byte, error) { ask(); return []byte("typed"), nil },
		TerminalSize: func() (int, int) { return 100, 8 },
		RawTerminal:  func() (func(), error) { return func() {}, nil },
		Serve:        func(context.Context, config.Config, func(cli.ServerInfo)) error { return nil },
		Isolations:   func() []string { return nil },
		Probe:        func(context.Context, config.Config, string) sandbox.Report { return sandbox.Report{} },
		Programs:     func(context.Context) ([]agentcli.Installed, error) { return nil, nil },
	}
	return p
}

// start starts a command in a new goroutine.
func (p *testCLI) start(args ...string) {
	p.env.Args = args
	go func() { p.code <- cli.Main(context.Background(), p.env) }()
}

// exit waits for the end of the command and returns its exit code. It fails the test after
// a minute.
func (p *testCLI) exit(t *testing.T) int {
	t.Helper()
	select {
	case code := <-p.code:
		return code
	case <-time.After(time.Minute):
		t.Fatalf("the command does not end; its screens:\n%s\n%s", p.out, p.err)
		return -1
	}
}
