package pgtest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"
)

// EnvServer is the environment variable that names a server to use instead of
// a throw-away cluster, as a postgres:// URL of a role that may create
// databases.
const EnvServer = "STINT_TEST_POSTGRES"

// setupLimit bounds what one test waits for its database.
const setupLimit = 3 * time.Minute

// shared is the cluster of this test binary.
var shared struct {
	mu      sync.Mutex // guards the rest
	running bool       // Main has begun and not ended
	cluster *Cluster   // nil until a test asked for it
	err     error      // why it could not be started; asked once
}

// Main runs the tests of m, stops the cluster that they used, and exits: with
// 1 also when goroutines are left although all tests passed.
func Main(m *testing.M) {
	os.Exit(Run(m))
}

// Run is Main for those who have more to do before they exit: it returns the
// exit status.
func Run(m *testing.M) int {
	setRunning(true)
	code := m.Run()
	if err := errors.Join(setRunning(false), leaks()); err != nil {
		fmt.Fprintln(os.Stderr, "after the tests:", err)
		code = max(code, 1)
	}
	return code
}

// leakLimit is how long goroutines may take that have been told to end.
const leakLimit = 20 * time.Second

// leaks tells of goroutines that do not end.
func leaks() error {
	for deadline := time.Now().Add(leakLimit); ; {
		if err := goleak.Find(); err == nil || time.Now().After(deadline) { // it waits, but not for long
			return err
		}
	}
}

// setRunning opens the door to the shared cluster, or closes it and stops the
// cluster.
func setRunning(running bool) error {
	shared.mu.Lock()
	defer shared.mu.Unlock()
	shared.running = running
	if running || shared.cluster == nil {
		return nil
	}
	return shared.cluster.Close()
}

// URL gives the connection URL of a fresh, empty database. It fails the test
// where no PostgreSQL is installed or Main is not in charge of the binary.
// It is safe for parallel tests.
func URL(t testing.TB) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), setupLimit)
	defer cancel()
	name := "t_" + strings.ToLower(rand.Text())
	if server := os.Getenv(EnvServer); server != "" {
		return foreignURL(ctx, t, server, name)
	}
	c, err := sharedCluster()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.CreateDatabase(ctx, name); err != nil {
		t.Fatal(err)
	}
	return c.URL(name)
}

func sharedCluster() (*Cluster, error) {
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if !shared.running {
		return nil, errors.New("the cluster would outlive the tests: call pgtest.Main from TestMain")
	}
	if shared.cluster == nil && shared.err == nil {
		shared.cluster, shared.err = StartCluster("")
	}
	return shared.cluster, shared.err
}

// foreignURL makes a database on the given server and drops it after the test.
func foreignURL(ctx context.Context, t testing.TB, server, name string) string {
	t.Helper()
	u, err := url.Parse(server)
	if err != nil || !strings.HasPrefix(u.Scheme, "postgres") {
		t.Fatalf("%s is no postgres:// URL", EnvServer)
	}
	if err := execute(ctx, server, createDatabase(name)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), setupLimit)
		defer cancel()
		if err := execute(ctx, server, "drop database if exists "+quote(name)+" with (force)"); err != nil {
			t.Error(err)
		}
	})
	u.Path = "/" + name
	return u.String()
}

// createDatabase copies template0, which nobody can be connected to and which
// parallel tests can therefore copy at once.
func createDatabase(name string) string {
	return "create database " + quote(name) + " template template0"
}

func quote(name string) string { return pgx.Identifier{name}.Sanitize() }

// execute runs one statement on a connection of its own.
func execute(ctx context.Context, url, statement string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return fmt.Errorf("connecting for %q: %w", statement, err)
	}
	_, err = conn.Exec(ctx, statement)
	return errors.Join(err, conn.Close(context.WithoutCancel(ctx)))
}
