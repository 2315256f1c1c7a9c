package sqlite_test

import (
	"context"
	"testing"

	"github.com/stint-dev/stint/internal/store"
	"github.com/stint-dev/stint/internal/store/sqlstore"
	"github.com/stint-dev/stint/internal/store/sqlstore/sqltest"
)

func BenchmarkStore(b *testing.B) {
	seed := func(t testing.TB, s store.Store, n int) {
		const numbers = `with recursive numbers (i) as (select 0 union all select i + 1 from numbers where i + 1 < $1) `
		for _, insert := range []string{sqltest.SeedRuns, sqltest.SeedSpecs} {
			err := s.(*testStore).Do(t.Context(), func(ctx context.Context, q sqlstore.Querier) error {
				_, err := q.ExecContext(ctx, numbers+insert, n)
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	sqltest.Benchmarks(b, func(t testing.TB) store.Store { return newStore(t) }, seed)
}
