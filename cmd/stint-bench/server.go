package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/client"
	"github.com/stint-dev/stint/internal/config"
)

// patience limits each wait for a server or another process.
const patience = 30 * time.Second

// child is a process that ends with this one, with ctx, and after the scenario.
type child struct {
	*exec.Cmd
	cancel context.CancelFunc
	stderr bytes.Buffer // complete when the process has ended
}

// spawn starts a program and reads the line of JSON that it prints when it is
// ready.
func (l *lab) spawn(ctx context.Context, ready any, program string, args ...string) *child {
	ctx, cancel := context.WithCancel(ctx)
	c := &child{Cmd: exec.CommandContext(ctx, program, args...), cancel: cancel}
	c.Env, c.Stderr = l.environ(), &c.stderr
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true} // Ctrl-C reaches this process only
	c.Cancel = func() error { return c.Process.Signal(os.Interrupt) }
	c.WaitDelay = patience // then it is killed
	l.cleanup(func() error { c.stop(); return nil })
	out := must(c.StdoutPipe())
	check(c.Start())
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err != nil {
		c.kill()
		check(fmt.Errorf("%s ended: %s", strings.Join(c.Args, " "), bytes.TrimSpace(c.stderr.Bytes())))
	}
	check(json.Unmarshal(line, ready))
	return c
}

// environ returns the environment without the settings of a server, except its
// database and the programs of agents.
func (l *lab) environ() []string {
	env := slices.DeleteFunc(os.Environ(), func(e string) bool {
		name, _, _ := strings.Cut(e, "=")
		return strings.HasPrefix(name, "STINT_") && !strings.HasSuffix(name, "_BIN")
	})
	return append(env, "STINT_DATABASE="+l.dsn)
}

// stop interrupts the child and waits for its end.
func (c *child) stop() {
	c.cancel()
	_ = c.Wait() // the exit code does not matter
}

// kill ends the child at once and waits for its end.
func (c *child) kill() {
	_ = c.Process.Kill() // it may have ended
	_ = c.Wait()
}

// memory returns the resident memory of the child in bytes.
func (c *child) memory() float64 {
	return float64(memoryField(fmt.Sprintf("/proc/%d/status", c.Process.Pid), "VmRSS"))
}

// server is `stint serve` in a child process.
type server struct {
	*child
	api     *client.Client
	address string // host:port
	token   string
	ready   time.Duration // from the start until /readyz answered 200
}

// start starts a server on the data folder and logs in.
func (l *lab) start(ctx context.Context, data string, flags ...string) *server {
	begin := time.Now()
	var ready struct{ URL string }
	args := append([]string{"serve", "--json", "--data", data, "--listen", "127.0.0.1:0", "--log-level", "error", "--drain", "1ms"}, flags...)
	s := &server{child: l.spawn(ctx, &ready, l.stint, args...)}
	s.address = strings.TrimPrefix(ready.URL, "http://")
	l.dial(ctx, s.address, 1)[0].do(http.StatusOK, request("GET", "/readyz", "", ""))
	s.ready = time.Since(begin)
	s.token = logIn(ctx, filepath.Join(data, config.SocketName))
	s.api = must(client.New(client.Options{URL: ready.URL, Token: s.token, HTTP: &http.Client{Transport: &http.Transport{}}}))
	return s
}

// logIn gets a token through the socket of a data folder.
func logIn(ctx context.Context, socket string) string {
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}
	body := strings.NewReader(`{"org":"bench","user":"bench","name":"bench","expiresInDays":1}`)
	r := must(http.NewRequestWithContext(ctx, http.MethodPost, "http://stint/login", body))
	answer := must(transport.RoundTrip(r))
	defer answer.Body.Close()
	var token stint.Token
	check(json.NewDecoder(answer.Body).Decode(&token))
	return token.Secret
}

// The agent of most scenarios; its prompts are scripts.
const (
	agentName       = "speaker"
	agentDefinition = `{"name":"` + agentName + `","framework":"shell","network":{"mode":"none"}}`
	sleepScript     = "sleep 600" // longer than a scenario
)

// speaker starts a server on a new folder with the agent.
func (l *lab) speaker(ctx context.Context, flags ...string) *server {
	s := l.start(ctx, l.folder(), flags...)
	s.createAgent(ctx, agentDefinition)
	return s
}

func (s *server) createAgent(ctx context.Context, definition string) {
	must(s.api.Agents.Create(ctx, json.RawMessage(definition)))
}

// post returns a request that creates a run.
func (s *server) post(agent, prompt string, headers ...string) []byte {
	return request("POST", "/v1/runs", s.token, fmt.Sprintf(`{"agent":%q,"prompt":%q}`, agent, prompt), headers...)
}

// sleeping creates a run that sleeps and waits until it is running.
func (s *server) sleeping(ctx context.Context) (id string) {
	r := must(s.api.Runs.Create(ctx, stint.NewRun{Agent: agentName, Prompt: sleepScript}, nil))
	for r.Status == stint.Pending {
		time.Sleep(2 * time.Millisecond)
		r = must(s.api.Runs.Get(ctx, r.ID))
	}
	expect(r, stint.Running)
	return r.ID
}

// completed creates a run and waits until it has completed.
func (s *server) completed(ctx context.Context, n stint.NewRun) (id string) {
	r := must(s.api.Runs.Create(ctx, n, nil))
	r = must(s.api.Runs.Wait(ctx, r.ID))
	expect(r, stint.Completed)
	return r.ID
}

// expect fails if the run has another status.
func expect(r *stint.Run, want stint.Status) {
	if r.Status != want {
		check(fmt.Errorf("%s is %s, not %s: %s", r.ID, r.Status, want, must(json.Marshal(r.Error))))
	}
}

// firstOutput returns a step that creates a run, follows it to its end, and
// measures its first output.
func (l *lab) firstOutput(s *server, agent string) func(context.Context) time.Duration {
	return func(ctx context.Context) (first time.Duration) {
		c := l.dial(ctx, s.address, 1)[0]
		begin := time.Now()
		r := c.run(s.post(agent, "echo hello"))
		for e, err := range s.api.Runs.Events(ctx, r.ID, 0) {
			if check(err); e.Type == stint.EventOutput && first == 0 {
				first = time.Since(begin)
			}
		}
		return first
	}
}

// logged returns the duration in the system log entry of a run that has the
// metadata.
func (s *server) logged(ctx context.Context, run, metadata string) time.Duration {
	for e, err := range s.api.Runs.Logs(ctx, run, client.LogFilter{Type: stint.LogSystem}) {
		check(err)
		if ms, ok := e.Metadata["durationMs"].(float64); ok && e.Metadata[metadata] != nil {
			return time.Duration(ms * float64(time.Millisecond))
		}
	}
	panic(failure{fmt.Errorf("the log of %s has no duration with %q", run, metadata)})
}

// conn is a keep-alive HTTP connection for one goroutine. Requests are bytes that
// were made before, because the load generator shares the processors with the
// server. What it costs is part of the results.
type conn struct {
	net.Conn
	r *bufio.Reader
}

// dial opens connections that are closed after the scenario.
func (l *lab) dial(ctx context.Context, address string, n int) []*conn {
	conns := make([]*conn, n)
	for i := range conns {
		c := must(new(net.Dialer).DialContext(ctx, "tcp", address))
		l.cleanup(func() error { c.Close(); return nil })
		conns[i] = &conn{c, bufio.NewReader(c)}
	}
	return conns
}

// request returns the bytes of a request. The body may be empty.
func request(method, path, token, body string, headers ...string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n", method, path, token, len(body))
	if body != "" {
		b.WriteString("Content-Type: application/json\r\n")
	}
	for _, h := range headers {
		b.WriteString(h + "\r\n")
	}
	b.WriteString("\r\n" + body)
	return b.Bytes()
}

// do sends a request and returns the body of the answer, which must have the
// status.
func (c *conn) do(status int, request []byte) []byte {
	check(c.SetDeadline(time.Now().Add(patience)))
	must(c.Write(request))
	answer := must(http.ReadResponse(c.r, nil))
	defer answer.Body.Close()
	body := must(io.ReadAll(answer.Body))
	if answer.StatusCode != status {
		line, _, _ := bytes.Cut(request, []byte("\r\n"))
		check(fmt.Errorf("%s: status %d, want %d: %.300s", line, answer.StatusCode, status, body))
	}
	return body
}

// run sends a request that creates a run.
func (c *conn) run(post []byte) (r stint.Run) {
	check(json.Unmarshal(c.do(http.StatusAccepted, post), &r))
	return r
}

// repeat returns a step that sends a request and measures the answer.
func (c *conn) repeat(request []byte) func(context.Context) time.Duration {
	return func(context.Context) time.Duration {
		return timed(func() { c.do(http.StatusOK, request) })
	}
}

// connections is the number of clients of a scenario of requests.
const connections = 32

// readRate returns a step that measures how many requests a second are answered.
func (l *lab) readRate(ctx context.Context, address string, request []byte) func(context.Context) float64 {
	conns := l.dial(ctx, address, connections)
	return loopRate(connections, l.each/2, func(_ context.Context, i int) { conns[i].do(http.StatusOK, request) })
}

// offer sends rate requests a second for d, whether or not earlier ones were
// answered. A request that waits for a free connection counts from the moment at
// which it was due, so a stalled server cannot hide delayed requests.
func offer(ctx context.Context, conns []*conn, rate float64, d time.Duration, request []byte) Measure {
	took := make([]time.Duration, int(rate*d.Seconds()))
	var next atomic.Int64
	begin := time.Now()
	concurrently(ctx, len(conns), func(ctx context.Context, i int) {
		for n := int(next.Add(1)) - 1; n < len(took) && ctx.Err() == nil; n = int(next.Add(1)) - 1 {
			start := begin.Add(time.Duration(float64(n) / rate * float64(time.Second)))
			if wait := time.Until(start); wait > 0 {
				time.Sleep(wait)
				start = time.Now() // oversleeping is this process's fault
			}
			conns[i].do(http.StatusAccepted, request)
			took[n] = time.Since(start)
		}
	})
	m := latency(took)
	m.Rate = float64(len(took)) / time.Since(begin).Seconds()
	return m
}
