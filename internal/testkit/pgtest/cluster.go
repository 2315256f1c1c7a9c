package pgtest

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/testkit/requirement"
)

const (
	startLimit = 3 * time.Minute // maximum time from exec to the first connection, including crash recovery
	stopLimit  = 2 * time.Minute // maximum time from the signal to the exit
	socketPort = 5432            // part of the socket's file name; no TCP port is used
	pathLimit  = 107             // maximum bytes in the path of a Unix socket
)

// Cluster is a PostgreSQL server with its own data. Its methods are not safe for
// concurrent use, except URL and CreateDatabase. On Linux, the server ends with the
// test binary, even if the binary is killed.
type Cluster struct {
	bin   string // folder of initdb and postgres
	owner owner
	data  string // data folder

	sockets string // folder of the socket and the log
	server  *server
}

// server is a running postgres process, the parent of the other processes of PostgreSQL.
type server struct {
	process *os.Process
	exited  chan struct{} // closed when the process has exited
}

// NewCluster starts a server with the data folder dir, and stops it at the end of the
// test. It creates and initialises the folder if necessary. If dir is empty, the data
// folder is temporary. If the current user is root, the folder and the processes
// belong to the user postgres, which needs access to the parent folders of dir.
// NewCluster skips the test if PostgreSQL is not installed.
func NewCluster(t testing.TB, dir string) *Cluster {
	t.Helper()
	c, err := startCluster(dir)
	checkStarted(t, err)
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// checkStarted ends the test if startCluster returned an error: it skips the test if
// PostgreSQL is not installed, and fails it otherwise.
func checkStarted(t testing.TB, err error) {
	t.Helper()
	if errors.Is(err, errMissing) {
		requirement.Skip(t, err.Error())
	}
	if err != nil {
		t.Fatal(err)
	}
}

func startCluster(dir string) (*Cluster, error) {
	c := &Cluster{data: dir}
	var err error
	if c.bin, err = findBinaries(); err != nil {
		return nil, err
	}
	if c.owner, err = findOwner(); err != nil {
		return nil, err
	}
	if err := c.setUp(); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

func (c *Cluster) setUp() (err error) {
	if c.sockets, err = os.MkdirTemp("", "stint-pg-"); err != nil {
		return err
	}
	if len(filepath.Join(c.sockets, ".s.PGSQL.5432.lock")) > pathLimit {
		return fmt.Errorf("the path of %s is too long for a socket: set TMPDIR to a shorter one", c.sockets)
	}
	if c.data == "" {
		c.data = filepath.Join(c.sockets, "data")
	}
	if err := c.owner.take(c.sockets); err != nil {
		return err
	}
	if err := c.initialise(); err != nil {
		return err
	}
	return c.Start()
}

// initialise runs initdb if the data folder does not contain a cluster yet.
func (c *Cluster) initialise() error {
	if _, err := os.Stat(filepath.Join(c.data, "PG_VERSION")); err == nil {
		return nil
	}
	if err := os.MkdirAll(c.data, 0o700); err != nil {
		return err
	}
	if err := c.owner.take(c.data); err != nil {
		return err
	}
	// The new cluster need not survive a power loss, so initdb does not sync its files.
	cmd := c.command("initdb", "--pgdata", c.data, "--username", "postgres", "--auth", "trust",
		"--encoding", "UTF8", "--locale", "C", "--locale-provider", "icu", "--icu-locale", "en", "--no-sync")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w\n%s", err, out)
	}
	return nil
}

// command returns a command that runs a program of the installation as the owner. It does
// not inherit environment variables, because they could select another server.
func (c *Cluster) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(c.bin, name), args...)
	cmd.Dir = c.sockets
	cmd.Env = []string{"PATH=/usr/bin:/bin", "LC_ALL=C", "TZ=UTC"}
	cmd.SysProcAttr = c.owner.attributes()
	return cmd
}

// URL returns the connection URL of the database db: "postgres" or a database that
// CreateDatabase created. The URL remains valid after StopImmediate and Start.
func (c *Cluster) URL(db string) string {
	q := url.Values{"host": {c.sockets}, "port": {fmt.Sprint(socketPort)}, "sslmode": {"disable"}}
	u := url.URL{Scheme: "postgres", User: url.User("postgres"), Path: "/" + db, RawQuery: q.Encode()}
	return u.String()
}

// CreateDatabase creates an empty database.
func (c *Cluster) CreateDatabase(ctx context.Context, name string) error {
	return execute(ctx, c.URL("postgres"), createDatabase(name))
}

// Start starts the stopped server with its existing data and returns when the server
// accepts connections. If the server is running, Start does nothing.
func (c *Cluster) Start() error {
	if c.server != nil {
		return nil
	}
	logPath := filepath.Join(c.sockets, "server.log")
	log, err := os.OpenFile(logPath, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := c.command("postgres", "-D", c.data, "-k", c.sockets, "-p", fmt.Sprint(socketPort),
		"-c", "listen_addresses=", "-c", "max_connections=200")
	cmd.Stdout, cmd.Stderr = log, log
	if c.server, err = launch(cmd); err != nil {
		return fmt.Errorf("starting postgres: %w", err)
	}
	if err := c.awaitReady(); err != nil {
		text, _ := os.ReadFile(logPath)
		return fmt.Errorf("waiting for postgres: %w\n%s", err, text[max(0, len(text)-4096):])
	}
	return nil
}

// launch starts cmd from a thread that exists until cmd has exited, because the kernel
// sends the parent death signal when the thread that started the child ends.
func launch(cmd *exec.Cmd) (*server, error) {
	s := &server{exited: make(chan struct{})}
	started := make(chan error)
	go func() {
		defer close(s.exited)
		runtime.LockOSThread() // not unlocked, so that the thread ends with the goroutine
		err := cmd.Start()
		s.process = cmd.Process
		started <- err
		if err == nil {
			_ = cmd.Wait() // the exit status of a stopped server does not matter
		}
	}()
	if err := <-started; err != nil {
		<-s.exited
		return nil, err
	}
	return s, nil
}

func (c *Cluster) awaitReady() error {
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		err := execute(ctx, c.URL("postgres"), "select 1")
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-c.server.exited:
			return errors.New("it exited")
		case <-ctx.Done():
			return err
		}
	}
}

// StopImmediate crashes the server: connections break, nothing is flushed, and the
// next Start recovers from the write-ahead log. It returns when all processes of
// the server have ended. If the server is not running, StopImmediate does nothing.
func (c *Cluster) StopImmediate() error {
	if c.server == nil {
		return nil
	}
	s := c.server
	c.server = nil
	if err := s.process.Signal(syscall.SIGQUIT); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stopping postgres: %w", err)
	}
	limit := time.NewTimer(stopLimit)
	defer limit.Stop()
	select {
	case <-s.exited:
		return nil
	case <-limit.C:
		_ = s.process.Kill()
		<-s.exited
		return fmt.Errorf("postgres did not stop within %v and was killed", stopLimit)
	}
}

// Close stops the server and removes its temporary files. It keeps the data folder
// that was passed to NewCluster. Further calls do nothing.
func (c *Cluster) Close() error {
	err := c.StopImmediate()
	if c.sockets != "" {
		err = errors.Join(err, os.RemoveAll(c.sockets))
		c.sockets = ""
	}
	return err
}
