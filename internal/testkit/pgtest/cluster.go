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
	"time"
)

const (
	startLimit = 3 * time.Minute // from exec to the first connection, crash recovery included
	stopLimit  = 2 * time.Minute // from the signal to the exit
	socketPort = 5432            // only a part of the socket's file name
	pathLimit  = 107             // bytes in the path of a Unix socket
)

// Cluster is a PostgreSQL server with data of its own. Its methods are not
// safe for concurrent use, except URL and CreateDatabase. The server dies
// with the test binary, however that ends.
type Cluster struct {
	bin   string // folder of initdb and postgres
	owner owner
	data  string // data folder

	sockets string // folder of the socket and the log
	server  *server
}

// server is one life of a cluster's postmaster.
type server struct {
	process *os.Process
	exited  chan struct{} // closed after the process was waited for
}

// StartCluster starts a server on the data folder dir, which it creates and
// initialises where that was not done before; with "" it makes a folder of
// its own and removes it on Close. Run as root, the folder and the processes
// belong to the user postgres, who must be able to reach dir.
func StartCluster(dir string) (*Cluster, error) {
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

// initialise fills the data folder, unless it holds a cluster already.
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
	// The folder is worth nothing after a power loss, so initdb need not sync it.
	cmd := c.command("initdb", "--pgdata", c.data, "--username", "postgres", "--auth", "trust",
		"--encoding", "UTF8", "--locale", "C", "--locale-provider", "icu", "--icu-locale", "en", "--no-sync")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w\n%s", err, out)
	}
	return nil
}

// command runs a program of the installation as the owner, with nothing of
// our environment that could point it elsewhere.
func (c *Cluster) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(c.bin, name), args...)
	cmd.Dir = c.sockets
	cmd.Env = []string{"PATH=/usr/bin:/bin", "LC_ALL=C", "TZ=UTC"}
	cmd.SysProcAttr = c.owner.attributes()
	return cmd
}

// URL is the connection URL of a database: "postgres" or one that
// CreateDatabase made. It stays the same over StopImmediate and Start.
func (c *Cluster) URL(db string) string {
	q := url.Values{"host": {c.sockets}, "port": {fmt.Sprint(socketPort)}, "sslmode": {"disable"}}
	u := url.URL{Scheme: "postgres", User: url.User("postgres"), Path: "/" + db, RawQuery: q.Encode()}
	return u.String()
}

// CreateDatabase makes an empty database.
func (c *Cluster) CreateDatabase(ctx context.Context, name string) error {
	return execute(ctx, c.URL("postgres"), createDatabase(name))
}

// Start starts the stopped server again on its data and returns when it takes
// connections. A server that runs is left alone.
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
		return fmt.Errorf("postgres does not get ready: %w\n%s", err, text[max(0, len(text)-4096):])
	}
	return nil
}

// launch starts cmd from a thread that lives as long as the process does: the
// signal which the kernel sends at the death of a parent goes by threads.
func launch(cmd *exec.Cmd) (*server, error) {
	s := &server{exited: make(chan struct{})}
	started := make(chan error)
	go func() {
		defer close(s.exited)
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		err := cmd.Start()
		s.process = cmd.Process
		started <- err
		if err == nil {
			_ = cmd.Wait() // a stopped server exits with whatever it likes
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

// StopImmediate crashes the server: connections break, nothing is written
// back, and the next Start recovers from the log. It returns when all of its
// processes are gone. A stopped server is left alone.
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

// Close stops the server and removes what StartCluster made; a data folder
// that was handed in stays. Another Close does nothing.
func (c *Cluster) Close() error {
	err := c.StopImmediate()
	if c.sockets != "" {
		err = errors.Join(err, os.RemoveAll(c.sockets))
		c.sockets = ""
	}
	return err
}
