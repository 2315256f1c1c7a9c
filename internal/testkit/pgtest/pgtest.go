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

// EnvServer is the environment variable with the postgres:// URL of a server that is
// used instead of a temporary cluster. The role in the URL needs the right to create
// databases.
const EnvServer = "STINT_TEST_POSTGRES"

// setupLimit is the maximum duration of the creation or the removal of a database.
const setupLimit = 3 * time.Minute

// shared is the cluster that the tests of this binary share.
var shared struct {
	mu      sync.Mutex // guards the fields below
	running bool       // the tests are running
	cluster *Cluster   // nil until the first call of URL
	err     error      // error of the attempt to start the cluster
}

// Main runs the tests of m, stops the shared cluster, and exits. The exit status is
// not 0 if a test fails or goroutines are left.
func Main(m *testing.M) {
	os.Exit(Run(m))
}

// Run is like Main but returns the exit status.
func Run(m *testing.M) int {
	setRunning(true)
	code := m.Run()
	if err := errors.Join(setRunning(false), leaks()); err != nil {
		fmt.Fprintln(os.Stderr, "after the tests:", err)
		code = max(code, 1)
	}
	return code
}

// leakLimit is the time within which goroutines must end after the tests.
const leakLimit = 20 * time.Second

// leaks returns an error if goroutines of the tests still run after leakLimit.
func leaks() error {
	for deadline := time.Now().Add(leakLimit); ; {
		if err := goleak.Find(); err == nil || time.Now().After(deadline) { // Find itself retries for a short time
			return err
		}
	}
}

// setRunning sets shared.running, which allows tests to use the shared cluster. If running
// is false, it also stops the cluster.
func setRunning(running bool) error {
	shared.mu.Lock()
	defer shared.mu.Unlock()
	shared.running = running
	if running || shared.cluster == nil {
		return nil
	}
	return shared.cluster.Close()
}

// URL creates an empty database and returns its connection URL. If PostgreSQL is not
// installed, URL skips the test. If Main or Run did not start the tests, URL fails the
// test. URL is safe for concurrent use.
func URL(t testing.TB) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), setupLimit)
	defer cancel()
	name := "t_" + strings.ToLower(rand.Text())
	if server := os.Getenv(EnvServer); server != "" {
		return externalURL(ctx, t, server, name)
	}
	c, err := sharedCluster()
	checkStarted(t, err)
	if err := c.CreateDatabase(ctx, name); err != nil {
		t.Fatal(err)
	}
	return c.URL(name)
}

func sharedCluster() (*Cluster, error) {
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if !shared.running {
		return nil, errors.New("the cluster would not be stopped: call pgtest.Main from TestMain")
	}
	if shared.cluster == nil && shared.err == nil {
		shared.cluster, shared.err = startCluster("")
	}
	return shared.cluster, shared.err
}

// externalURL creates a database on the given server and returns its URL. The database is
// dropped after the test.
func externalURL(ctx context.Context, t testing.TB, server, name string) string {
	t.Helper()
	u, err := url.Parse(server)
	if err != nil || !strings.HasPrefix(u.Scheme, "postgres") {
		t.Fatalf("%s is not a postgres:// URL", EnvServer)
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

// createDatabase returns the statement that creates a copy of template0. PostgreSQL
// refuses to copy a database with open connections; template0 allows none, so parallel
// tests can copy it at the same time.
func createDatabase(name string) string {
	return "create database " + quote(name) + " template template0"
}

func quote(name string) string { return pgx.Identifier{name}.Sanitize() }

// execute runs one statement on a new connection.
func execute(ctx context.Context, url, statement string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return fmt.Errorf("connecting for %q: %w", statement, err)
	}
	_, err = conn.Exec(ctx, statement)
	return errors.Join(err, conn.Close(context.WithoutCancel(ctx)))
}
