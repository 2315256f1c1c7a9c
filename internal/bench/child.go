package bench

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
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/config"
)

// stopLimit is how long a child may take to end by itself.
const stopLimit = 30 * time.Second

// child is a process of this program.
type child struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	errors *tail
	exited chan struct{}
}

// spawn starts this program with the arguments. The child dies with us.
func (l *lab) spawn(args ...string) (*child, error) {
	command := append(append([]string{}, l.o.Command...), args...)
	c := &child{cmd: exec.Command(command[0], command[1:]...), errors: &tail{}, exited: make(chan struct{})}
	c.cmd.Env = l.environ()
	c.cmd.Stderr = c.errors
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true} // Ctrl-C is ours to pass on
	in, err := c.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	c.in, c.out, c.cmd.Stdout = in, bufio.NewReaderSize(out, 64<<10), w
	if err := c.cmd.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: %w", strings.Join(args, " "), err), out.Close(), w.Close())
	}
	w.Close()
	go func() {
		defer close(c.exited)
		_ = c.cmd.Wait() // the exit of a killed child is no news
		out.Close()
	}()
	return c, nil
}

// environ is ours without what would configure a server, but for its database
// and the agents' programs.
func (l *lab) environ() []string {
	var env []string
	for _, e := range os.Environ() {
		if name, _, _ := strings.Cut(e, "="); !strings.HasPrefix(name, "STINT_") || strings.HasSuffix(name, "_BIN") {
			env = append(env, e)
		}
	}
	if l.database != "" {
		env = append(env, "STINT_DATABASE="+l.database)
	}
	return env
}

// read reads one line of JSON from the child.
func (c *child) read(ctx context.Context, into any) error {
	stop := context.AfterFunc(ctx, c.kill)
	defer stop()
	line, err := c.out.ReadBytes('\n')
	if err != nil {
		<-c.exited
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return fmt.Errorf("%s ended: %s", c.cmd.Args[1], c.errors)
	}
	return json.Unmarshal(line, into)
}

// ask sends a line of JSON and reads the answer.
func (c *child) ask(ctx context.Context, question, answer any) error {
	line, err := json.Marshal(question)
	if err != nil {
		return err
	}
	if _, err := c.in.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("%w: %s", err, c.errors)
	}
	return c.read(ctx, answer)
}

// stop lets the child end by itself, or kills it when it takes too long.
func (c *child) stop() error {
	c.in.Close()
	if err := c.cmd.Process.Signal(os.Interrupt); errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	select {
	case <-c.exited:
		return nil
	case <-time.After(stopLimit):
		c.kill()
		return fmt.Errorf("%s did not stop within %s", strings.Join(c.cmd.Args[1:], " "), stopLimit)
	}
}

// kill ends the child without warning and waits for its end.
func (c *child) kill() {
	_ = c.cmd.Process.Kill() // it may have ended
	<-c.exited
}

// tail keeps the end of what a child complained about.
type tail struct {
	mu   sync.Mutex // guards text
	text []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p...)
	if len(t.text) > 2<<10 {
		t.text = append([]byte(nil), t.text[len(t.text)-2<<10:]...)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(bytes.TrimSpace(t.text))
}

// service is a child that runs `stint serve`.
type service struct {
	*child
	address string // host:port
	token   string
	ready   time.Duration // from the start to the first good answer of /readyz
}

// serve starts a server on the data folder and logs in.
func (l *lab) serve(ctx context.Context, data string, flags ...string) (*service, error) {
	begin := time.Now()
	c, err := l.spawn(append([]string{"serve", "--json", "--data", data, "--listen", "127.0.0.1:0", "--log-level", "error", "--drain", "1ms"}, flags...)...)
	if err != nil {
		return nil, err
	}
	s := &service{child: c}
	if err := s.settle(ctx, data, begin); err != nil {
		c.kill()
		return nil, fmt.Errorf("start a server: %w", err)
	}
	return s, nil
}

func (s *service) settle(ctx context.Context, data string, begin time.Time) error {
	var serving struct {
		URL string `json:"url"`
	}
	if err := s.read(ctx, &serving); err != nil {
		return err
	}
	s.address = strings.TrimPrefix(serving.URL, "http://")
	c, err := dial(ctx, s.address)
	if err != nil {
		return err
	}
	defer c.Close()
	if _, err := c.want(http.StatusOK, request("GET", "/readyz", "", "")); err != nil {
		return err
	}
	s.ready = time.Since(begin)
	s.token, err = logIn(ctx, filepath.Join(data, config.SocketName))
	return err
}

// logIn gets a token through the socket of a data folder.
func logIn(ctx context.Context, socket string) (string, error) {
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", socket)
	}}
	body := strings.NewReader(`{"org":"bench","user":"bench","name":"bench","expiresInDays":1}`)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://stint/login", body)
	if err != nil {
		return "", err
	}
	answer, err := (&http.Client{Transport: transport, Timeout: patience}).Do(r)
	if err != nil {
		return "", fmt.Errorf("log in: %w", err)
	}
	defer answer.Body.Close()
	var token stint.Token
	if err := json.NewDecoder(answer.Body).Decode(&token); err != nil || token.Secret == "" {
		return "", errors.Join(fmt.Errorf("log in: status %d without a token", answer.StatusCode), err)
	}
	return token.Secret, nil
}

// agent stores an agent of the shell framework.
func (s *service) agent(ctx context.Context, name string) error {
	c, err := dial(ctx, s.address)
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = c.want(http.StatusCreated, request("POST", "/v1/agents", s.token, agentDefinition(name)))
	return err
}

// definition is the smallest agent: its prompt is a script.
func agentDefinition(name string) string {
	return fmt.Sprintf(`{"name":%q,"framework":"shell","network":{"mode":"none"}}`, name)
}

// newRun is the body of POST /v1/runs.
func newRun(agent, prompt string) string {
	return fmt.Sprintf(`{"agent":%q,"prompt":%q}`, agent, prompt)
}
