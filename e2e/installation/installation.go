// Package installation builds the program and starts servers for end-to-end tests.
//
// The clients that the package returns check every HTTP exchange against the OpenAPI
// document.
package installation

import (
	"bytes"
	"context"
	"encoding/json"
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

	"golang.org/x/sys/unix"

	"github.com/stint-dev/stint/client"
	"github.com/stint-dev/stint/internal/testkit/apitest"
)

// waitLimit is the maximum time to wait for an event, even on a busy machine.
const waitLimit = 2 * time.Minute

// binary is the program under test, which is built once.
var binary struct {
	once sync.Once
	dir  string
	path string
	err  error
}

// Binary returns the path of the program under test. The first call builds the program,
// and CleanUp removes it.
func Binary(t testing.TB) string {
	t.Helper()
	binary.once.Do(func() {
		if binary.dir, binary.err = os.MkdirTemp("", "stint-bin-"); binary.err != nil {
			return
		}
		binary.path = filepath.Join(binary.dir, "stint")
		cmd := exec.Command("go", "build", "-o", binary.path, "github.com/stint-dev/stint/cmd/stint")
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			binary.err = fmt.Errorf("building stint: %w\n%s", err, out)
		}
	})
	Check(t, binary.err)
	return binary.path
}

// CleanUp removes the program that Binary built. TestMain calls it last.
func CleanUp() error { return os.RemoveAll(binary.dir) }

// Host is an installation: a data folder and an address. Servers that are started one
// after the other use both.
type Host struct {
	t       *testing.T
	Data    string
	Listen  string
	Flags   []string      // flags of the next server
	Env     []string      // added to the environment of the next server
	Server  *exec.Cmd     // nil before Start and after Stop
	Exited  chan struct{} // closed when the server has exited
	log     bytes.Buffer
	logLock sync.Mutex
}

// New creates an installation and sets the flags of its servers. At the end of the test,
// the server is stopped and the data folder is removed.
func New(t *testing.T, flags ...string) *Host {
	t.Helper()
	base, err := os.MkdirTemp("", "stint-host-")
	Check(t, err)
	h := &Host{t: t, Data: filepath.Join(base, "data"), Listen: Reserve(t), Flags: flags}
	t.Cleanup(func() {
		h.Stop(syscall.SIGTERM)
		Check(t, os.RemoveAll(base))
		if t.Failed() {
			t.Logf("server's log:\n%s", Tail(h.Log(), 6000))
		}
	})
	return h
}

// Reserve returns a local address that the system does not assign to other processes
// until the end of the test, because a socket that does not listen is bound to it.
// Servers of the test can listen on it repeatedly.
func Reserve(t testing.TB) string {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	Check(t, err)
	t.Cleanup(func() { Check(t, unix.Close(fd)) })
	Check(t, unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)) // servers also set this option
	Check(t, unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	name, err := unix.Getsockname(fd)
	Check(t, err)
	return fmt.Sprintf("127.0.0.1:%d", name.(*unix.SockaddrInet4).Port)
}

// Write appends the output of a server to the log. It implements io.Writer.
func (h *Host) Write(p []byte) (int, error) {
	h.logLock.Lock()
	defer h.logLock.Unlock()
	return h.log.Write(p)
}

// Log returns the output of all servers so far.
func (h *Host) Log() string {
	h.logLock.Lock()
	defer h.logLock.Unlock()
	return h.log.String()
}

// Start starts a server and waits until it is ready. It fails the test if the server
// exits or is not ready within waitLimit.
func (h *Host) Start() {
	h.t.Helper()
	args := append([]string{"serve", "--data", h.Data, "--listen", h.Listen}, h.Flags...)
	h.Server = exec.Command(Binary(h.t), args...)
	h.Server.Env = append(os.Environ(), h.Env...)
	h.Server.Stdout, h.Server.Stderr = h, h
	Check(h.t, h.Server.Start())
	h.Exited = make(chan struct{})
	go func(cmd *exec.Cmd, exited chan struct{}) { _ = cmd.Wait(); close(exited) }(h.Server, h.Exited)
	deadline := time.After(waitLimit)
	for {
		res, err := http.Get("http://" + h.Listen + "/readyz")
		if err == nil {
			_ = res.Body.Close()
			if res.StatusCode == http.StatusOK {
				return
			}
		}
		select {
		case <-h.Exited:
			h.t.Fatalf("the server exited while starting:\n%s", Tail(h.Log(), 4000))
		case <-deadline:
			h.t.Fatalf("the server is not ready after %s:\n%s", waitLimit, Tail(h.Log(), 4000))
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// Stop sends a signal to the server and waits until the server has exited. If this takes
// longer than waitLimit, Stop kills the server and fails the test.
func (h *Host) Stop(sig os.Signal) {
	if h.Server == nil {
		return
	}
	_ = h.Server.Process.Signal(sig)
	select {
	case <-h.Exited:
	case <-time.After(waitLimit):
		_ = h.Server.Process.Kill()
		h.t.Errorf("the server did not exit within %s after %s", waitLimit, sig)
	}
	h.Server = nil
}

// Login creates a token for the user ann of org through the socket in the data folder,
// and returns a client with this token.
func (h *Host) Login(t testing.TB, org string) *client.Client {
	t.Helper()
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", filepath.Join(h.Data, "stint.sock"))
	}}
	defer transport.CloseIdleConnections()
	body := fmt.Sprintf(`{"org":%q,"user":"ann","name":"e2e","expiresInDays":1}`, org)
	res, err := (&http.Client{Transport: transport}).Post("http://socket/login", "application/json", strings.NewReader(body))
	Check(t, err)
	defer res.Body.Close()
	var answer struct {
		Token string `json:"token"`
		Error string `json:"error"`
	}
	Check(t, json.NewDecoder(res.Body).Decode(&answer))
	if answer.Token == "" {
		t.Fatalf("login: %s %s", res.Status, answer.Error)
	}
	c, err := client.New(client.Options{URL: "http://" + h.Listen, Token: answer.Token, HTTP: apitest.Client(t), Attempts: 300, Backoff: 20 * time.Millisecond})
	Check(t, err)
	return c
}

// Check fails the test if err is not nil.
func Check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Tail returns at most the last n bytes of a text.
func Tail(s string, n int) string { return s[max(0, len(s)-n):] }

// Leftovers returns the processes, mounts, and control groups that sandboxes of an
// earlier server left on this machine. It does not return those of the running server.
// Because the running server starts and ends processes during the search, Leftovers
// repeats the search until it finds nothing, for up to waitLimit.
func (h *Host) Leftovers() []string {
	deadline := time.Now().Add(waitLimit)
	for {
		found := h.leftovers()
		if len(found) == 0 || time.Now().After(deadline) {
			return found
		}
		<-time.After(50 * time.Millisecond)
	}
}

func (h *Host) leftovers() []string {
	var found []string
	mounts, _ := os.ReadFile("/proc/self/mountinfo")
	for line := range strings.Lines(string(mounts)) {
		if strings.Contains(line, h.Data) {
			found = append(found, "mount "+strings.TrimSpace(line))
		}
	}
	running := h.descendants()
	processes, _ := filepath.Glob("/proc/[0-9]*")
	for _, p := range processes {
		own, _ := os.ReadFile(p + "/mountinfo")
		if !running[filepath.Base(p)] && strings.Contains(string(own), h.Data) {
			cmd, _ := os.ReadFile(p + "/cmdline")
			found = append(found, "process "+filepath.Base(p)+" "+strings.ReplaceAll(string(cmd), "\x00", " "))
		}
	}
	return append(found, h.groups(running)...)
}

// groups returns the control groups of this installation's sandboxes, except those of the
// current server. running contains the process IDs of the current server.
func (h *Host) groups(running map[string]bool) (found []string) {
	instance, err := os.ReadFile(filepath.Join(h.Data, "instance"))
	if err != nil {
		return []string{err.Error()}
	}
	id := strings.TrimPrefix(strings.TrimSpace(string(instance)), "host_")
	_ = filepath.WalkDir("/sys/fs/cgroup", func(p string, d os.DirEntry, err error) error {
		base := filepath.Base(p)
		if err != nil || !d.IsDir() || !strings.Contains(p, id) || !strings.Contains(base, "run_") && !strings.Contains(base, "sbx_") {
			return nil //nolint:nilerr // groups come and go
		}
		procs, err := os.ReadFile(filepath.Join(p, "cgroup.procs"))
		first, _, _ := strings.Cut(string(procs), "\n")
		if err == nil && !running[first] {
			found = append(found, "cgroup "+p)
		}
		return nil
	})
	return found
}

// descendants returns the process IDs of the running server and its descendants.
func (h *Host) descendants() map[string]bool {
	all := map[string]bool{}
	if h.Server == nil {
		return all
	}
	parents := map[string]string{}
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		b, _ := os.ReadFile(path)
		if f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:])); len(f) > 1 {
			parents[filepath.Base(filepath.Dir(path))] = f[1]
		}
	}
	server := fmt.Sprint(h.Server.Process.Pid)
	for pid := range parents {
		for p := pid; p != "" && p != "0"; p = parents[p] {
			if p == server {
				all[pid] = true
				break
			}
		}
	}
	return all
}
