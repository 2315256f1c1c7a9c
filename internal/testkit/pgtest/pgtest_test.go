package pgtest_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/stint-dev/stint/internal/testkit/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	return conn
}

func exec(t *testing.T, conn *pgx.Conn, statement string) {
	t.Helper()
	if _, err := conn.Exec(t.Context(), statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

func ask[T any](t *testing.T, conn *pgx.Conn, query string) T {
	t.Helper()
	var v T
	if err := conn.QueryRow(t.Context(), query).Scan(&v); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return v
}

func TestEachURLIsANewDatabase(t *testing.T) {
	t.Parallel()
	one, two := connect(t, pgtest.URL(t)), connect(t, pgtest.URL(t))
	exec(t, one, "create table only_here (x int)")
	if ask[bool](t, two, "select to_regclass('only_here') is not null") {
		t.Error("a table of one database exists in the other")
	}
	if got := ask[string](t, one, "show fsync"); got != "on" {
		t.Errorf("fsync is %q", got)
	}
}

func TestExternalServer(t *testing.T) {
	server := pgtest.URL(t)
	t.Setenv(pgtest.EnvServer, server)
	t.Run("use", func(t *testing.T) {
		conn := connect(t, pgtest.URL(t))
		exec(t, conn, "create table only_here (x int)")
		exec(t, conn, "comment on database "+ask[string](t, conn, "select quote_ident(current_database())")+" is 'a test of the external server'")
	})
	const left = `select count(*) from pg_database d where shobj_description(d.oid, 'pg_database') = 'a test of the external server'`
	if n := ask[int](t, connect(t, server), left); n != 0 {
		t.Errorf("%d databases are left on the server", n)
	}
}

func TestTextSortsByEnglishRules(t *testing.T) {
	t.Parallel()
	conn := connect(t, pgtest.URL(t))
	if !ask[bool](t, conn, "select 'a' < 'B'") {
		t.Error("text sorts by byte, so tests would not find a query without a collation")
	}
}

func TestCrashKeepsCommittedRows(t *testing.T) {
	t.Parallel()
	c := pgtest.NewCluster(t, "")
	if err := c.CreateDatabase(t.Context(), "crash"); err != nil {
		t.Fatal(err)
	}
	before := connect(t, c.URL("crash"))
	exec(t, before, "create table kept (x int)")
	exec(t, before, "insert into kept values (7)")
	exec(t, before, "begin")
	exec(t, before, "insert into kept values (8)")
	if err := c.StopImmediate(); err != nil {
		t.Fatal(err)
	}
	if _, err := before.Exec(t.Context(), "commit"); err == nil {
		t.Fatal("a stopped server committed")
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	after := connect(t, c.URL("crash"))
	if got := ask[int](t, after, "select sum(x) from kept"); got != 7 {
		t.Errorf("the sum after the crash is %d, want 7", got)
	}
}

func TestDataFolderOfClosedClusterIsKept(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "pgtest-") // other users cannot enter t.TempDir
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, statement := range []string{"create table kept (x int)", "insert into kept values (7)"} {
		c := pgtest.NewCluster(t, filepath.Join(dir, "data"))
		exec(t, connect(t, c.URL("postgres")), statement)
		if err := c.Start(); err != nil {
			t.Errorf("Start of a running server: %v", err)
		}
		for range 2 {
			if err := c.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
		}
	}
}
