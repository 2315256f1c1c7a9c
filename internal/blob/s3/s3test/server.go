package s3test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

const (
	accessKey = "s3test"
	secretKey = "only-for-tests-0123456789"
	region    = "eu-test-1"

	startLimit = time.Minute
	stopLimit  = time.Minute
)

// Server is a running S3 server. Its methods are safe for concurrent use.
type Server struct {
	dir     string // contains all files of the server
	process *os.Process
	exited  chan struct{}
	gateway *http.Transport
	*Proxy  // for tests that inject no faults
}

// Start builds the server if necessary and starts it.
func Start() (*Server, error) {
	program, err := build()
	if err != nil {
		return nil, err
	}
	s := &Server{exited: make(chan struct{})}
	if s.dir, err = os.MkdirTemp("", "stint-s3-"); err != nil {
		return nil, err
	}
	if err := s.start(program); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// build builds the server if necessary and returns the path of the program in the Go
// command's cache.
func build() (string, error) {
	root, err := moduleRoot()
	if err != nil {
		return "", err
	}
	cmd := exec.Command("go", "tool", "-modfile=tools/versitygw/go.mod", "-n", "versitygw")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("building the S3 server: %w\n%s", err, stderr.Bytes())
	}
	return strings.TrimSpace(string(out)), nil
}

func moduleRoot() (string, error) {
	out, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("finding the module: %w", err)
	}
	return filepath.Dir(strings.TrimSpace(string(out))), nil
}

func (s *Server) start(program string) error {
	for _, name := range []string{"buckets", "attributes"} {
		if err := os.Mkdir(filepath.Join(s.dir, name), 0o700); err != nil {
			return err
		}
	}
	log, err := os.Create(filepath.Join(s.dir, "log"))
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(program, "--port", s.socket(), "--region", region, "--quiet", "--keep-alive",
		"posix", "--sidecar", filepath.Join(s.dir, "attributes"), filepath.Join(s.dir, "buckets"))
	cmd.Dir = s.dir
	cmd.Env = []string{"ROOT_ACCESS_KEY=" + accessKey, "ROOT_SECRET_KEY=" + secretKey}
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = attributes()
	if err := s.launch(cmd); err != nil {
		return fmt.Errorf("starting the S3 server: %w", err)
	}
	if err := s.await(); err != nil {
		text, _ := os.ReadFile(log.Name())
		return fmt.Errorf("the S3 server does not become ready: %w\n%s", err, text)
	}
	s.gateway = &http.Transport{DialContext: s.dial, MaxIdleConnsPerHost: 64, DisableCompression: true}
	s.Proxy = newProxy(s)
	return nil
}

func (s *Server) socket() string { return filepath.Join(s.dir, "socket") }

func (s *Server) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	return (&net.Dialer{}).DialContext(ctx, "unix", s.socket())
}

// launch starts cmd from a thread that lives as long as the process, because the
// kernel sends the parent-death signal when the starting thread ends.
func (s *Server) launch(cmd *exec.Cmd) error {
	started := make(chan error)
	go func() {
		defer close(s.exited)
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		err := cmd.Start()
		s.process = cmd.Process
		started <- err
		if err == nil {
			_ = cmd.Wait() // the exit status of a stopped server does not matter
		}
	}()
	return <-started
}

func (s *Server) await() error {
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		c, err := s.dial(ctx, "", "")
		if err == nil {
			return c.Close()
		}
		select {
		case <-tick.C:
		case <-s.exited:
			return errors.New("it exited")
		case <-ctx.Done():
			return err
		}
	}
}

// Env returns the environment variables with the credentials for a client.
func (s *Server) Env() []string {
	return []string{"AWS_ACCESS_KEY_ID=" + accessKey, "AWS_SECRET_ACCESS_KEY=" + secretKey}
}

// NewBucket creates an empty bucket.
func (s *Server) NewBucket(name string) error {
	return os.Mkdir(filepath.Join(s.dir, "buckets", name), 0o700)
}

// Close stops the server and removes its files.
func (s *Server) Close() error {
	if s.Proxy != nil {
		s.close()
		s.gateway.CloseIdleConnections()
	}
	return errors.Join(s.stop(), os.RemoveAll(s.dir))
}

func (s *Server) stop() error {
	if s.process == nil {
		return nil
	}
	if err := s.process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stopping the S3 server: %w", err)
	}
	limit := time.NewTimer(stopLimit)
	defer limit.Stop()
	select {
	case <-s.exited:
		return nil
	case <-limit.C:
		_ = s.process.Kill()
		<-s.exited
		return fmt.Errorf("the S3 server did not stop within %v and was killed", stopLimit)
	}
}
