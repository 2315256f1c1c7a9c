package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/stint-dev/stint/internal/config"
)

// logName is the name of the log of a detached server, in the data folder.
const logName = "server.log"

// startLimit is how long a detached server may take until it is ready.
const startLimit = 2 * time.Minute

// runningServer is the answer of a server on its socket. Ready is the result of /readyz.
type runningServer struct {
	URL     string `json:"url"`
	PID     int    `json:"pid"`
	Ready   bool   `json:"ready"`
	Message string `json:"message"`
}

// findServer asks the server of a data folder for its address and state. If no server
// answers, the error is errNoSocket.
func findServer(ctx context.Context, socket string) (runningServer, error) {
	status, body, err := askSocket(ctx, socket, http.MethodGet, "/server", struct{}{})
	if err != nil {
		return runningServer{}, err
	}
	var s runningServer
	if status != http.StatusOK {
		return s, refusal(status, body)
	}
	if err := json.Unmarshal(body, &s); err != nil {
		return s, fmt.Errorf("read the server's answer: %w", err)
	}
	return s, nil
}

// detachedServer is the JSON form of a server that was started in the background.
type detachedServer struct {
	ServerInfo
	PID int    `json:"pid"`
	Log string `json:"log"`
}

// serveDetached starts a server in the background and returns when it is ready. If the
// server does not become ready, or ctx ends, serveDetached stops it. flags are the flags
// of the command line.
func (a *app) serveDetached(ctx context.Context, c config.Config, flags map[string]string) error {
	switch found, err := findServer(ctx, c.Socket()); {
	case err == nil:
		return fmt.Errorf("a server is already running with the data folder %s, at %s (process %d): stop it with '%s'", c.Data, found.URL, found.PID, a.withData("stint stop", c))
	case !errors.Is(err, errNoSocket):
		return fmt.Errorf("a process answers on the socket of the data folder: %w", err)
	}
	log, begin, err := openLog(c.Data)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }() // the server has its own descriptor
	server, err := a.background(log, flags)
	if err != nil {
		return err
	}
	ended := make(chan struct{})
	go func() {
		_ = server.Wait() // the log contains the reason of a failure
		close(ended)
	}()
	ready, err := awaitReady(ctx, c.Socket(), server.Process, ended)
	if err != nil {
		a.relay(log, begin)
		return fmt.Errorf("%w; its log is %s", err, log.Name())
	}
	info := ServerInfo{URL: ready.URL, Socket: c.Socket(), DataDir: c.Data}
	if a.json {
		return a.printJSON(detachedServer{info, ready.PID, log.Name()})
	}
	a.announce(c, info)
	a.note("The server is process %d and writes to %s. Stop it with: %s", ready.PID, log.Name(), a.withData("stint stop", c))
	return nil
}

// openLog opens the log in a data folder, which is created if it is missing, and returns
// the size of the log.
func openLog(data string) (log *os.File, size int64, err error) {
	if err := os.MkdirAll(data, 0o700); err != nil {
		return nil, 0, fmt.Errorf("create the data folder (choose another with --data): %w", err)
	}
	log, err = os.OpenFile(filepath.Join(data, logName), os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return nil, 0, fmt.Errorf("open the server's log: %w", err)
	}
	if size, err = log.Seek(0, io.SeekEnd); err != nil {
		return nil, 0, errors.Join(fmt.Errorf("open the server's log: %w", err), log.Close())
	}
	return log, size, nil
}

// background starts 'stint serve' in a session of its own, so that neither Ctrl-C nor
// the end of the terminal stops it.
func (a *app) background(log *os.File, flags map[string]string) (*exec.Cmd, error) {
	program, err := a.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	args := []string{"serve"}
	for name, value := range flags {
		args = append(args, "--"+name+"="+value)
	}
	slices.Sort(args[1:])
	server := exec.Command(program, args...)
	server.Dir, server.Stdout, server.Stderr = a.Dir, log, log
	server.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := server.Start(); err != nil {
		return nil, fmt.Errorf("start the server: %w", err)
	}
	return server, nil
}

// awaitReady waits until the server of a process is ready. ended is closed at the end of
// the process. If the server does not become ready within startLimit or ctx ends,
// awaitReady stops the process and waits for its end.
func awaitReady(ctx context.Context, socket string, server *os.Process, ended <-chan struct{}) (runningServer, error) {
	limit := time.After(startLimit)
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	last := "it does not answer"
	for {
		select {
		case <-ended:
			return runningServer{}, errors.New("the server did not start")
		case <-ctx.Done():
			endProcess(server, ended)
			return runningServer{}, context.Cause(ctx)
		case <-limit:
			endProcess(server, ended)
			return runningServer{}, fmt.Errorf("the server was stopped, because it was not ready within %s (%s)", startLimit, last)
		case <-tick.C:
		}
		found, err := findServer(ctx, socket)
		switch {
		case err != nil || found.PID != server.Pid:
		case found.Ready:
			return found, nil
		default:
			last = found.Message
		}
	}
}

// endProcess ends a server that is starting: with SIGTERM, and with SIGKILL if it does
// not end within 10 s.
func endProcess(server *os.Process, ended <-chan struct{}) {
	_ = server.Signal(syscall.SIGTERM) // fails only if the process has ended
	select {
	case <-ended:
	case <-time.After(10 * time.Second):
		_ = server.Kill()
		<-ended
	}
}

// relay prints the errors in the log of a server that has failed, from the given offset,
// or the last lines if there is no error. This process has printed the warnings itself.
func (a *app) relay(log *os.File, from int64) {
	content, err := io.ReadAll(io.NewSectionReader(log, from, 1<<20))
	if err != nil {
		return
	}
	lines := strings.Split(string(bytes.TrimSpace(content)), "\n")
	last := lines[max(0, len(lines)-10):]
	lines = slices.DeleteFunc(slices.Clone(lines), func(line string) bool {
		return !strings.HasPrefix(line, "stint: ") || strings.HasPrefix(line, "stint: warning: ")
	})
	if len(lines) == 0 {
		lines = last
	}
	for _, line := range lines {
		a.note("%s", plain(line))
	}
}
