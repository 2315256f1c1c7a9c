package sqlstore

import (
	"context"
	"slices"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/store"
)

// AddMetrics stores samples of a run, and the place of its attempt.
func (s *Store) AddMetrics(ctx context.Context, runID string, samples []stint.MetricsSample, place *store.Place) error {
	if len(samples) == 0 && place == nil {
		return nil
	}
	samples = slices.Clone(samples)
	// Sort the samples, so that concurrent calls lock rows in the same order.
	slices.SortStableFunc(samples, func(a, b stint.MetricsSample) int { return a.Timestamp.Compare(b.Timestamp.Time) })
	return s.write(ctx, "storing metrics", func(ctx context.Context, q Querier) error {
		var steps []Step
		if place != nil {
			steps = append(steps, step(`update runs set isolation = $3, image_digest = $4, usage = coalesce($5, usage)
				where id = $1 and epoch = $2 and status = 'running'`,
				runID, place.Epoch, place.Isolation, emptyOrNil(place.ImageDigest), raw(place.Usage)))
		}
		for _, m := range samples {
			steps = append(steps, step(`insert into metrics (run_id, at, cpu, mem_used, mem_total, disk_used, disk_total)
				values ($1, $2, $3, $4, $5, $6, $7)
				on conflict (run_id, at) do update set cpu = excluded.cpu, mem_used = excluded.mem_used, mem_total = excluded.mem_total,
					disk_used = excluded.disk_used, disk_total = excluded.disk_total`,
				runID, micros(m.Timestamp), m.CPUPercent, m.MemoryUsedMb, m.MemoryTotalMb, m.DiskUsedMb, m.DiskTotalMb))
		}
		return run(ctx, q, steps...)
	})
}

// Metrics returns the samples of a run, oldest first.
func (s *Store) Metrics(ctx context.Context, run string) ([]stint.MetricsSample, error) {
	return list(ctx, s, "reading metrics", scanSample, `select at, cpu, mem_used, mem_total, disk_used, disk_total
		from metrics where run_id = $1 order by at`, run)
}

func scanSample(r Row) (m stint.MetricsSample, err error) {
	return m, r.Scan(timeAt{&m.Timestamp}, &m.CPUPercent, &m.MemoryUsedMb, &m.MemoryTotalMb, &m.DiskUsedMb, &m.DiskTotalMb)
}
