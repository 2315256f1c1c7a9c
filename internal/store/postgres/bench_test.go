package postgres_test

import (
	"fmt"
	"testing"

	"github.com/stint-dev/stint/internal/store"
	"github.com/stint-dev/stint/internal/store/sqlstore/sqltest"
	"github.com/stint-dev/stint/internal/testkit/pgtest"
)

func BenchmarkStore(b *testing.B) {
	seed := func(t testing.TB, s store.Store, n int) {
		numbers := fmt.Sprintf("with numbers (i) as (select generate_series(0, %d)) ", n-1)
		execute(t, s.(*testStore).url, numbers+sqltest.SeedRuns, numbers+sqltest.SeedSpecs, "vacuum analyze runs", "vacuum analyze run_specs")
	}
	sqltest.Benchmarks(b, func(t testing.TB) store.Store { return openWith(t, pgtest.URL(t), 0) }, seed)
}
