package storetest

import (
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/store"
)

var metricCases = []testCase{
	{"samples are returned in order of time", func(w *world) {
		c := w.home.start()
		base := w.now()
		a, b, d := sample(base, 1.5), sample(later(base, time.Second), 0), sample(later(base, 2*time.Second), 399.999)
		w.must(w.s.AddMetrics(w.ctx, c.Run.ID, []stint.MetricsSample{d}, nil), "AddMetrics")
		w.must(w.s.AddMetrics(w.ctx, c.Run.ID, []stint.MetricsSample{b, a}, nil), "AddMetrics")
		w.must(w.s.AddMetrics(w.ctx, c.Run.ID, nil, nil), "AddMetrics of nothing")
		w.diff("samples", []stint.MetricsSample{a, b, d}, w.samples(c.Run.ID))
	}},
	{"a sample replaces one with the same time", func(w *world) {
		c := w.home.start()
		at := w.now()
		first, second := sample(at, 10), sample(at, 20)
		second.MemoryUsedMb, second.MemoryTotalMb, second.DiskUsedMb, second.DiskTotalMb = 99, 98, 97, 96
		w.must(w.s.AddMetrics(w.ctx, c.Run.ID, []stint.MetricsSample{first}, nil), "AddMetrics")
		w.must(w.s.AddMetrics(w.ctx, c.Run.ID, []stint.MetricsSample{second}, nil), "AddMetrics again")
		w.diff("samples", []stint.MetricsSample{second}, w.samples(c.Run.ID))
		fine := second
		fine.Timestamp = stint.Time{Time: at.Add(900 * time.Microsecond)}
		w.must(w.s.AddMetrics(w.ctx, c.Run.ID, []stint.MetricsSample{fine}, nil), "AddMetrics within the millisecond")
		w.diff("samples", []stint.MetricsSample{second}, w.samples(c.Run.ID))
	}},
	{"the place of an attempt is recorded while it runs", func(w *world) {
		c := w.home.start(retries(1))
		place := &store.Place{Epoch: 1, Isolation: "gvisor", ImageDigest: "sha256:1"}
		w.must(w.s.AddMetrics(w.ctx, c.Run.ID, []stint.MetricsSample{sample(w.now(), 1)}, place), "AddMetrics")
		r := w.home.checkRun(c.Run.ID)
		w.diff("place", []*string{new("gvisor"), new("sha256:1"), new("gvisor")}, []*string{r.Isolation, r.ImageDigest, r.Attempts[0].Isolation})
		w.lose(c.Run.WorkerID)
		second := w.claimOne(w.worker())
		w.must(w.s.AddMetrics(w.ctx, c.Run.ID, nil, &store.Place{Epoch: 1, Isolation: "late"}), "AddMetrics of the old attempt")
		w.diff("isolation of the second attempt", (*string)(nil), w.home.checkRun(c.Run.ID).Isolation)
		w.must(w.s.AddMetrics(w.ctx, c.Run.ID, nil, &store.Place{Epoch: 2, Isolation: "namespace"}), "AddMetrics of the second attempt")
		w.cancel(w.home.org, c.Run.ID)
		w.must(w.s.AddMetrics(w.ctx, c.Run.ID, nil, &store.Place{Epoch: second.Run.Epoch, Isolation: "late"}), "AddMetrics after the end")
		r = w.home.checkRun(c.Run.ID)
		w.diff("isolation", []*string{new("gvisor"), new("namespace")}, []*string{r.Attempts[0].Isolation, r.Attempts[1].Isolation})
	}},
	{"runs have separate samples", func(w *world) {
		a, b := w.home.start(), w.home.start()
		w.must(w.s.AddMetrics(w.ctx, a.Run.ID, []stint.MetricsSample{sample(w.now(), 1)}, nil), "AddMetrics")
		w.diff("samples of the other", []stint.MetricsSample(nil), w.samples(b.Run.ID))
	}},
}

func sample(at stint.Time, cpu float64) stint.MetricsSample {
	return stint.MetricsSample{Timestamp: at, CPUPercent: cpu, MemoryUsedMb: 12, MemoryTotalMb: 2048, DiskUsedMb: 3, DiskTotalMb: 10240}
}

func (w *world) samples(run string) []stint.MetricsSample {
	w.Helper()
	samples, err := w.s.Metrics(w.ctx, run)
	w.must(err, "Metrics")
	return samples
}
