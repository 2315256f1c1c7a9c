package postgres_test

import (
	"context"
	"crypto/rand"
	"log/slog"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/stint-dev/stint/internal/store"
	"github.com/stint-dev/stint/internal/store/postgres"
	"github.com/stint-dev/stint/internal/store/sqlstore/sqltest"
	"github.com/stint-dev/stint/internal/store/storetest"
	"github.com/stint-dev/stint/internal/testkit/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// testStore is a store with the URL of its database.
type testStore struct {
	*postgres.Store
	url string
}

// open opens a store with few connections, because the suite opens many stores.
func open(t testing.TB, url string) *testStore {
	t.Helper()
	return openWith(t, url, 4)
}

func openWith(t testing.TB, url string, conns int) *testStore {
	t.Helper()
	s, err := postgres.Open(t.Context(), url, postgres.Options{Logger: slog.New(slog.DiscardHandler), MaxConns: conns})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return &testStore{s, url}
}

// template is the URL of a migrated database. Copying this database is faster than
// migrating a new one.
type template string

func newTemplate(t testing.TB) template {
	t.Helper()
	u := pgtest.URL(t)
	if err := open(t, u).Close(); err != nil {
		t.Fatal(err)
	}
	return template(u)
}

// copy creates a database from the template and returns its URL.
func (o template) copy(t testing.TB) string {
	t.Helper()
	u, err := url.Parse(string(o))
	if err != nil {
		t.Fatal(err)
	}
	from := strings.TrimPrefix(u.Path, "/")
	name := "t_" + strings.ToLower(rand.Text())
	u.Path = "/postgres"
	execute(t, u.String(), "create database "+name+" template "+from)
	if os.Getenv(pgtest.EnvServer) != "" { // an external server; a temporary cluster is removed as a whole
		t.Cleanup(func() { execute(t, u.String(), "drop database "+name+" with (force)") })
	}
	c := *u
	c.Path = "/" + name
	return c.String()
}

func execute(t testing.TB, url string, statements ...string) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context()) // also used by cleanups
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	for _, s := range statements {
		if _, err := conn.Exec(ctx, s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}

func newHarness(t *testing.T) storetest.Harness {
	t.Helper()
	base := newTemplate(t)
	return storetest.Harness{
		Open: func(t testing.TB) store.Store { return open(t, base.copy(t)) },
		Reopen: func(t testing.TB, s store.Store) store.Store {
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			return open(t, s.(*testStore).url)
		},
	}
}

func TestStore(t *testing.T) {
	t.Parallel()
	storetest.Run(t, newHarness(t))
}

func TestRandom(t *testing.T) {
	t.Parallel()
	storetest.Random(t, newHarness(t))
}

func TestSoakMutants(t *testing.T) {
	t.Parallel()
	storetest.Mutants(t, newHarness(t))
}

func TestLostClaims(t *testing.T) {
	t.Parallel()
	sqltest.LostClaims(t, open(t, pgtest.URL(t)))
}

func TestMigrateMounts(t *testing.T) {
	t.Parallel()
	testMigration(t, sqltest.MigrateMounts)
}

func TestMigrateSecrets(t *testing.T) {
	t.Parallel()
	testMigration(t, sqltest.MigrateSecrets)
}

func TestMigrateLineage(t *testing.T) {
	t.Parallel()
	testMigration(t, sqltest.MigrateLineage)
}

// testMigration runs a test of sqltest that undoes migrations and repeats them.
func testMigration(t *testing.T, test func(testing.TB, store.Store, func(...string) store.Store)) {
	t.Helper()
	s := open(t, pgtest.URL(t))
	test(t, s, func(statements ...string) store.Store {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		execute(t, s.url, statements...)
		return open(t, s.url)
	})
}
