package sqlite_test

import (
	"context"
	"log/slog"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"github.com/stint-dev/stint/internal/store"
	"github.com/stint-dev/stint/internal/store/sqlite"
	"github.com/stint-dev/stint/internal/store/sqlstore"
	"github.com/stint-dev/stint/internal/store/sqlstore/sqltest"
	"github.com/stint-dev/stint/internal/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testStore is a store with the path of its file.
type testStore struct {
	*sqlite.Store
	path string
}

func open(t testing.TB, path string) *testStore {
	t.Helper()
	s, err := sqlite.Open(t.Context(), path, sqlite.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return &testStore{s, path}
}

func newStore(t testing.TB) *testStore {
	t.Helper()
	return open(t, filepath.Join(t.TempDir(), "stint.db"))
}

func newHarness() storetest.Harness {
	return storetest.Harness{
		Open: func(t testing.TB) store.Store { return newStore(t) },
		Reopen: func(t testing.TB, s store.Store) store.Store {
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			return open(t, s.(*testStore).path)
		},
	}
}

func TestStore(t *testing.T) {
	t.Parallel()
	storetest.Run(t, newHarness())
}

func TestRandom(t *testing.T) {
	t.Parallel()
	storetest.Random(t, newHarness())
}

func TestSoakMutants(t *testing.T) {
	t.Parallel()
	storetest.Mutants(t, newHarness())
}

func TestLostClaims(t *testing.T) {
	t.Parallel()
	sqltest.LostClaims(t, newStore(t))
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
	s := newStore(t)
	test(t, s, func(statements ...string) store.Store {
		for _, text := range statements {
			err := s.Do(t.Context(), func(ctx context.Context, q sqlstore.Querier) error {
				_, err := q.ExecContext(ctx, text)
				return err
			})
			if err != nil {
				t.Fatalf("%s: %v", text, err)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		return open(t, s.path)
	})
}
