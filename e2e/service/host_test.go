package service_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/client"
	"github.com/stint-dev/stint/internal/apitest"
	"github.com/stint-dev/stint/internal/pgtest"
)

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "stint-e2e-")
	if err != nil {
		panic(err)
	}
	binary.dir = dir
	code := pgtest.Run(m)
	if err := os.RemoveAll(dir); err != nil {
		panic(err)
	}
	os.Exit(code)
}

// binary is the program under test, built once.
var binary struct {
	once sync.Once
	dir  string
	path string
	err  error
}

func stintBinary(t testing.TB) string {
	t.Helper()
	binary.once.Do(func() {
		binary.path = filepath.Join(binary.dir, "stint")
		cmd := exec.Command("go", "build", "-o", binary.path, "github.com/stint-dev/stint/cmd/stint")
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			binary.err = fmt.Errorf("build: %w\n%s", err, out)
		}
	})
	check(t, binary.err)
	return binary.path
}

// host is an installation: a data folder and an address that stay the same
// while servers on it come and go.
type host struct {
	t       *testing.T
	data    string
	listen  string
	flags   []string
	server  *exec.Cmd
	exited  chan struct{}
	log     bytes.Buffer
	logLock sync.Mutex
}

func newHost(t *testing.T, flags ...string) *host {
	t.Helper()
	base, err := os.MkdirTemp("", "stint-host-")
	check(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	h := &host{t: t, data: filepath.Join(base, "data"), listen: l.Addr().String(), flags: flags}
	check(t, l.Close())
	t.Cleanup(func() {
		h.stop(syscall.SIGTERM)
		check(t, os.RemoveAll(base))
		if t.Failed() {
			t.Logf("server's log:\n%s", tail(h.logText(), 6000))
		}
	})
	return h
}

func (h *host) Write(p []byte) (int, error) {
	h.logLock.Lock()
	defer h.logLock.Unlock()
	return h.log.Write(p)
}

func (h *host) logText() string {
	h.logLock.Lock()
	defer h.logLock.Unlock()
	return h.log.String()
}

// start starts the server and returns how long it took until it was ready.
func (h *host) start() time.Duration {
	h.t.Helper()
	args := append([]string{"serve", "--data", h.data, "--listen", h.listen}, h.flags...)
	begin := time.Now()
	h.server = exec.Command(stintBinary(h.t), args...)
	h.server.Stdout, h.server.Stderr = h, h
	check(h.t, h.server.Start())
	h.exited = make(chan struct{})
	go func(cmd *exec.Cmd, exited chan struct{}) { _ = cmd.Wait(); close(exited) }(h.server, h.exited)
	deadline := time.After(30 * time.Second)
	for {
		res, err := http.Get("http://" + h.listen + "/readyz")
		if err == nil {
			_ = res.Body.Close()
			if res.StatusCode == http.StatusOK {
				return time.Since(begin)
			}
		}
		select {
		case <-h.exited:
			h.t.Fatalf("the server ended while starting:\n%s", tail(h.logText(), 4000))
		case <-deadline:
			h.t.Fatalf("the server is not ready after 30 s:\n%s", tail(h.logText(), 4000))
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// stop ends the server with a signal and waits for its end.
func (h *host) stop(sig os.Signal) {
	if h.server == nil {
		return
	}
	_ = h.server.Process.Signal(sig)
	select {
	case <-h.exited:
	case <-time.After(60 * time.Second):
		_ = h.server.Process.Kill()
		h.t.Errorf("the server did not end within a minute of %s", sig)
	}
	h.server = nil
}

// login makes a token through the data folder's socket.
func (h *host) login(org string) *client.Client {
	h.t.Helper()
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", filepath.Join(h.data, "stint.sock"))
	}}
	defer transport.CloseIdleConnections()
	body := fmt.Sprintf(`{"org":%q,"user":"ann","name":"e2e","expiresInDays":1}`, org)
	res, err := (&http.Client{Transport: transport}).Post("http://socket/login", "application/json", strings.NewReader(body))
	check(h.t, err)
	defer res.Body.Close()
	var answer struct {
		Token string `json:"token"`
		Error string `json:"error"`
	}
	check(h.t, json.NewDecoder(res.Body).Decode(&answer))
	if answer.Token == "" {
		h.t.Fatalf("login: %s %s", res.Status, answer.Error)
	}
	c, err := client.New(client.Options{URL: "http://" + h.listen, Token: answer.Token, HTTP: apitest.Client(h.t), Attempts: 100, Backoff: 20 * time.Millisecond})
	check(h.t, err)
	return c
}

// agent pushes a shell agent.
func agent(t testing.TB, c *client.Client, name, more string) {
	t.Helper()
	_, err := c.Agents.Create(t.Context(), json.RawMessage(`{"name":"`+name+`","framework":"shell"`+more+`}`))
	check(t, err)
}

// create starts a run of the agent "shell".
func create(t testing.TB, c *client.Client, n stint.NewRun) *stint.Run {
	t.Helper()
	if n.Agent == "" {
		n.Agent = "shell"
	}
	r, err := c.Runs.Create(t.Context(), n, nil)
	check(t, err)
	return r
}

// ended waits for the end of a run.
func ended(t testing.TB, c *client.Client, id string) *stint.Run {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	r, err := c.Runs.Wait(ctx, id)
	if err != nil {
		t.Fatalf("wait for %s: %v", id, err)
	}
	return r
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func tail(s string, n int) string { return s[max(0, len(s)-n):] }

// leftovers lists what sandboxes of a data folder have left on this machine:
// processes whose root or command names it, mounts, cgroups.
func leftovers(data string) []string {
	var found []string
	mounts, _ := os.ReadFile("/proc/self/mountinfo")
	for line := range strings.Lines(string(mounts)) {
		if strings.Contains(line, data) {
			found = append(found, "mount "+strings.TrimSpace(line))
		}
	}
	processes, _ := filepath.Glob("/proc/[0-9]*")
	for _, p := range processes {
		own, _ := os.ReadFile(p + "/mountinfo")
		if strings.Contains(string(own), data) {
			cmd, _ := os.ReadFile(p + "/cmdline")
			found = append(found, "process "+filepath.Base(p)+" "+strings.ReplaceAll(string(cmd), "\x00", " "))
		}
	}
	instance, err := os.ReadFile(filepath.Join(data, "instance"))
	if err != nil {
		return append(found, err.Error())
	}
	id := strings.TrimPrefix(strings.TrimSpace(string(instance)), "host_")
	_ = filepath.WalkDir("/sys/fs/cgroup", func(p string, d os.DirEntry, err error) error {
		if err == nil && d.IsDir() && strings.Contains(p, id) && strings.Contains(filepath.Base(p), "run_") {
			found = append(found, "cgroup "+p)
		}
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		return err
	})
	return found
}

func clientFilter(s stint.Status) client.RunFilter { return client.RunFilter{Status: s} }
