package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
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

// patience is the time limit of waits, such as for a response or for the end of an
// interrupted process.
const patience = 30 * time.Second

// child is a child process. It ends when this process ends, when the context of spawn
// is done, or at the end of the scenario.
type child struct {
	*exec.Cmd
	cancel context.CancelFunc
	stderr bytes.Buffer // complete when the process has ended
}

// spawn starts a program, waits until it prints a line of JSON, and decodes the line
// into ready.
func (l *lab) spawn(ctx context.Context, ready any, program string, args ...string) *child {
	ctx, cancel := context.WithCancel(ctx)
	c := &child{Cmd: exec.CommandContext(ctx, program, args...), cancel: cancel}
	c.Env, c.Stderr = l.environ(), &c.stderr
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true} // Ctrl-C reaches this process only
	c.Cancel = func() error { return c.Process.Signal(os.Interrupt) }
	c.WaitDelay = patience // after this time it is killed
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

// environ returns the environment for a server. Of the STINT_ variables of this
// process, it contains only the paths of agent programs. STINT_DATABASE is set to the
// benchmark's database.
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

// kill kills the child and waits for its end.
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
	api   *client.Client
	url   string
	token string
	ready time.Duration // from the start until /readyz answered 200
}

// start starts a server with a data folder, waits until it is ready, and logs in.
func (l *lab) start(ctx context.Context, data string, flags ...string) *server {
	begin := time.Now()
	var ready struct{ URL string }
	args := append([]string{"serve", "--json", "--data", data, "--listen", "127.0.0.1:0", "--log-level", "error", "--drain", "1ms"}, flags...)
	s := &server{child: l.spawn(ctx, &ready, l.stint, args...)}
	s.url = ready.URL
	do(ctx, http.StatusOK, http.MethodGet, ready.URL+"/readyz", "", "")
	s.ready = time.Since(begin)
	s.token = logIn(ctx, filepath.Join(data, config.SocketName))
	s.api = must(client.New(client.Options{URL: ready.URL, Token: s.token, HTTP: &http.Client{Transport: httpClient.Transport}}))
	return s
}

// logIn returns a token that it requests through the Unix socket in a data folder.
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

// Most scenarios use this agent. Its prompts are shell scripts.
const (
	agentName       = "speaker"
	agentDefinition = `{"name":"` + agentName + `","framework":"shell","network":{"mode":"none"}}`
	sleepScript     = "sleep 600" // longer than a scenario
)

// startWithAgent starts a server with a new data folder and creates the agent.
func (l *lab) startWithAgent(ctx context.Context, flags ...string) *server {
	s := l.start(ctx, l.folder(), flags...)
	s.createAgent(ctx, agentDefinition)
	return s
}

func (s *server) createAgent(ctx context.Context, definition string) {
	must(s.api.Agents.Create(ctx, json.RawMessage(definition)))
}

// create creates a run without an idempotency key, and fails unless the status of the
// run is want. prefer are the values of the Prefer header.
func (s *server) create(ctx context.Context, agent, prompt string, want stint.Status, prefer ...string) (r stint.Run) {
	body := fmt.Sprintf(`{"agent":%q,"prompt":%q}`, agent, prompt)
	check(json.Unmarshal(do(ctx, http.StatusAccepted, http.MethodPost, s.url+"/v1/runs", s.token, body, prefer...), &r))
	expect(&r, want)
	return r
}

// get sends a GET request for a path of the API and returns the body of the response.
func (s *server) get(ctx context.Context, path string) []byte {
	return do(ctx, http.StatusOK, http.MethodGet, s.url+path, s.token, "")
}

// sleeping creates a run that executes sleepScript and waits until it is running.
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

// expect fails unless the status of the run is want.
func expect(r *stint.Run, want stint.Status) {
	if r.Status != want {
		check(fmt.Errorf("%s is %s, not %s: %s", r.ID, r.Status, want, must(json.Marshal(r.Error))))
	}
}

// firstOutput returns a step for inTurn that creates a run, reads its events to the
// end, and returns the time from the request to the first output.
func (s *server) firstOutput(agent string) func(context.Context) time.Duration {
	return func(ctx context.Context) (first time.Duration) {
		begin := time.Now()
		r := s.create(ctx, agent, "echo hello", stint.Pending)
		for e, err := range s.api.Runs.Events(ctx, r.ID, 0) {
			if check(err); e.Type == stint.EventOutput && first == 0 {
				first = time.Since(begin)
			}
		}
		return first
	}
}

// logged returns the duration in a system log entry of a run. It uses the first entry
// whose metadata contains durationMs and the given key.
func (s *server) logged(ctx context.Context, run, metadata string) time.Duration {
	for e, err := range s.api.Runs.Logs(ctx, run, client.LogFilter{Type: stint.LogSystem}) {
		check(err)
		if ms, ok := e.Metadata["durationMs"].(float64); ok && e.Metadata[metadata] != nil {
			return time.Duration(ms * float64(time.Millisecond))
		}
	}
	panic(failure{fmt.Errorf("the log of %s has no duration with %q", run, metadata)})
}

// connections is the number of concurrent clients in scenarios that measure requests.
const connections = 32

var httpClient = &http.Client{Timeout: patience, Transport: &http.Transport{MaxIdleConnsPerHost: connections}}

// do sends a request and returns the body of the response. It fails unless the response
// has the status. The measured times include the client's own work.
func do(ctx context.Context, status int, method, url, token, body string, prefer ...string) []byte {
	r := must(http.NewRequestWithContext(ctx, method, url, strings.NewReader(body)))
	r.Header = http.Header{"Authorization": {"Bearer " + token}, "Content-Type": {"application/json"}, "Prefer": prefer}
	answer := must(httpClient.Do(r))
	defer answer.Body.Close()
	content := must(io.ReadAll(answer.Body))
	if answer.StatusCode != status {
		check(fmt.Errorf("%s %s: status %d, want %d: %.300s", method, url, answer.StatusCode, status, content))
	}
	return content
}

// offer calls f rate times a second for d, in as many goroutines as there are
// connections. If all goroutines are busy when a call is due, the measured time of the
// call includes the delay, so that a stalled server cannot hide delayed requests.
func offer(ctx context.Context, rate float64, d time.Duration, f func(context.Context)) Measure {
	took := make([]time.Duration, int(rate*d.Seconds()))
	var next atomic.Int64
	begin := time.Now()
	concurrently(ctx, connections, func(ctx context.Context, _ int) {
		for n := int(next.Add(1)) - 1; n < len(took) && ctx.Err() == nil; n = int(next.Add(1)) - 1 {
			start := begin.Add(time.Duration(float64(n) / rate * float64(time.Second)))
			if wait := time.Until(start); wait > 0 {
				time.Sleep(wait)
				start = time.Now() // a sleep that took too long is not the server's delay
			}
			f(ctx)
			took[n] = time.Since(start)
		}
	})
	m := latency(took)
	m.Rate = float64(len(took)) / time.Since(begin).Seconds()
	return m
}

// create measures the creation of runs at a fixed rate. The runs stay pending, because
// a sleeping run occupies the server's only slot.
func (l *lab) create(ctx context.Context) {
	disk := l.durableWrites(ctx)
	s := l.startWithAgent(ctx, "--capacity", "1")
	s.sleeping(ctx)
	post := func(ctx context.Context) { s.create(ctx, agentName, "true", stint.Pending) }
	offer(ctx, l.rate, l.each/8, post) // warm up
	m := offer(ctx, l.rate, l.each, post)
	l.add(compare(fmt.Sprintf("POST /v1/runs, %s/s offered", number(l.rate)), m, anchorDurable, disk),
		atMost("p99", m.P99Ms, 10, "ms"), atLeast("rate", m.Rate, 0.98*l.rate, "/s"))
}

// echo measures the time from the creation of a run until the client reads its first
// output, one run after the other.
func (l *lab) echo(ctx context.Context) {
	l.firstOutputs(ctx, "POST → first streamed output of `echo`", 15)
}

// firstOutputs measures the time to the first output of runs on a server with the
// flags. The goal is the maximum median in milliseconds.
func (l *lab) firstOutputs(ctx context.Context, what string, goal float64, flags ...string) {
	s := l.startWithAgent(ctx, flags...)
	took := inTurn(ctx, warmUps, max(l.samples/4, 5), forkExec, s.firstOutput(agentName))
	m := latency(took[1])
	l.add(compare(what, m, anchorExec, latency(took[0])), atMost("p50", m.P50Ms, goal, "ms"))
}

// throughput measures the rate of short runs, with several in progress at a time. A
// run counts from its creation to its end.
func (l *lab) throughput(ctx context.Context) {
	const callers = 16
	s := l.startWithAgent(ctx)
	row := compareRates(ctx, fmt.Sprintf("`echo` runs from creation to end, %d at once", callers),
		loopRate(callers, l.each/2, func(ctx context.Context, _ int) {
			s.create(ctx, agentName, "echo hello", stint.Completed, "wait=20")
		}), fmt.Sprintf("%s, %d at once", anchorExec, callers), forkExecRate(callers, l.anchor))
	l.add(row)
}

// get measures GET requests for an ended and for a running run, compared with an HTTP
// handler that does no work.
func (l *lab) get(ctx context.Context) {
	h, s := l.host(ctx, 0), l.startWithAgent(ctx)
	read := func(url string) func(context.Context) float64 {
		return loopRate(connections, l.each/2, func(ctx context.Context, _ int) { do(ctx, http.StatusOK, http.MethodGet, url, s.token, "") })
	}
	for _, r := range []struct {
		what, id string
		goal     float64
	}{
		{"GET an ended run", s.completed(ctx, stint.NewRun{Agent: agentName, Prompt: "echo hello"}), 0.5},
		{"GET a running run", s.sleeping(ctx), 0.35},
	} {
		row := compareRates(ctx, r.what, read(s.url+"/v1/runs/"+r.id), "bare handler", read("http://"+h.Address+"/bare"))
		l.add(row, atLeast("", row.Ratio, r.goal, "×"))
	}
}

// list measures reading the first page and a page in the middle of a list of runs. It
// compares an organisation that has many runs with one that has few.
func (l *lab) list(ctx context.Context) {
	const few = 1000
	dir := l.folder()
	s := l.start(ctx, dir)
	s.createAgent(ctx, agentDefinition)
	template := s.completed(ctx, stint.NewRun{Agent: agentName, Prompt: "echo hello"})
	s.stop()
	l.seed(ctx, dir, template, 0, few)
	short := l.pages(ctx, dir, few)
	l.seed(ctx, dir, template, few, l.listed)
	long := l.pages(ctx, dir, l.listed)
	for i, what := range []string{"first page", "page in the middle"} {
		row := compare(fmt.Sprintf("%s of a list of %s runs", what, number(float64(l.listed))), latency(long[i]),
			fmt.Sprintf("of %s runs", number(few)), latency(short[i]))
		l.add(row, atMost("", row.Ratio, 1.5, "×"))
	}
}

// pages returns the times for the first page and for the page in the middle of a list
// of runs, measured alternately.
func (l *lab) pages(ctx context.Context, dir string, runs int) [][]time.Duration {
	s := l.start(ctx, dir, "--capacity", "1")
	cursor := ""
	for range max(runs/200, 1) { // find the cursor of the middle, 100 runs a page
		var p stint.Page[json.RawMessage]
		check(json.Unmarshal(s.get(ctx, "/v1/runs?limit=100"+cursor), &p))
		if p.Pagination.NextCursor == nil {
			check(errors.New("the list is too short"))
		}
		cursor = "&cursor=" + *p.Pagination.NextCursor
	}
	page := func(cursor string) func(context.Context) time.Duration {
		return func(ctx context.Context) time.Duration {
			return timed(func() { s.get(ctx, "/v1/runs?limit=20"+cursor) })
		}
	}
	took := inTurn(ctx, warmUps, l.samples, page(""), page(cursor))
	s.stop()
	return took
}

// serve measures `stint serve` from outside the process: starts with a new data folder
// and with a used one, the memory of the idle server, and the restart after kill -9.
func (l *lab) serve(ctx context.Context) {
	var dir string
	again := func(ctx context.Context) time.Duration {
		s := l.start(ctx, dir)
		s.stop()
		return s.ready
	}
	first := func(ctx context.Context) time.Duration {
		dir = l.folder()
		return again(ctx)
	}
	took := inTurn(ctx, 0, max(l.samples/50, 2), forkExec, first, again)
	for i, what := range []string{"start → ready, empty data folder", "start → ready, folder in use"} {
		m := latency(took[i+1])
		l.add(compare(what, m, anchorExec, latency(took[0])), atMost("p99", m.P99Ms, 300, "ms"))
	}
	l.crash(ctx)
}

// crash measures the memory of an idle server. It then kills the server while runs are
// running and pending, and measures the time until a new server is ready, which must
// still have every acknowledged run.
func (l *lab) crash(ctx context.Context) {
	const running, pending = 8, 50
	dir, flags := l.folder(), []string{"--capacity", fmt.Sprint(running)}
	s := l.start(ctx, dir, flags...)
	time.Sleep(l.anchor)
	idle := s.memory() / (1 << 20)
	l.add(Row{What: "memory of the idle server", Measured: Measure{Value: idle, Unit: "MiB"}}, atMost("", idle, 60, "MiB"))
	s.createAgent(ctx, agentDefinition)
	var acknowledged []string
	for range running {
		acknowledged = append(acknowledged, s.sleeping(ctx))
	}
	for range pending {
		r := must(s.api.Runs.Create(ctx, stint.NewRun{Agent: agentName, Prompt: sleepScript}, nil))
		acknowledged = append(acknowledged, r.ID)
	}
	s.kill()
	s = l.start(ctx, dir, flags...)
	for _, id := range acknowledged {
		must(s.api.Runs.Get(ctx, id))
	}
	ready := milliseconds(s.ready)
	l.add(Row{
		What: fmt.Sprintf("kill -9 with %d running → serving", running), Measured: Measure{Value: ready, Unit: "ms"},
		Note: fmt.Sprintf("all %d acknowledged runs were there afterwards.", len(acknowledged)),
	}, atMost("", ready, 1000, "ms"))
}
