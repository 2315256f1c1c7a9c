package app

import (
	"context"
	"errors"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/stint-dev/stint/internal/telemetry"
)

// maxOrgMetrics is the maximum number of organisations with metrics of their own.
const maxOrgMetrics = 1000

// Gauges of the whole installation. Every server of a database reports the same values,
// except for the storage, which each server counts.
var (
	queueRuns     = telemetry.Gauge("stint_queue_runs", "Pending runs of the installation, at most 100000.")
	queueOldest   = telemetry.Gauge("stint_queue_oldest_seconds", "Age of the oldest pending run of the installation; 0 without one.")
	runningRuns   = telemetry.Gauge("stint_running_runs", "Running runs of the installation, at most 100000.")
	leases        = telemetry.Gauge("stint_worker_leases", "Workers of the installation with a lease.")
	storedBytes   = telemetry.Gauge("stint_storage_bytes", "Stored bytes of the organisations, compressed and deduplicated.")
	storedObjects = telemetry.Gauge("stint_storage_objects", "Stored objects of the organisations: packs, manifests, and other files.")

	orgQueueRuns   = telemetry.Gauge("stint_organisation_queue_runs", "Pending runs of an organisation, at most 100000. Only for operators.", "organisation")
	orgQueueOldest = telemetry.Gauge("stint_organisation_queue_oldest_seconds", "Age of the oldest pending run of an organisation; 0 without one. Only for operators.", "organisation")
	orgRunningRuns = telemetry.Gauge("stint_organisation_running_runs", "Running runs of an organisation, at most 100000. Only for operators.", "organisation")
	orgStoredBytes = telemetry.Gauge("stint_organisation_storage_bytes", "Stored bytes of an organisation. Only for operators.", "organisation")
)

// metrics contains the server's registries.
type metrics struct {
	registry *prometheus.Registry // no labels with names of users
	orgs     *prometheus.Registry // metrics with the label organisation
	product  *telemetry.Product
}

func newMetrics() metrics {
	r := telemetry.Registry()
	return metrics{registry: r, orgs: prometheus.NewRegistry(), product: telemetry.NewProduct(r)}
}

// all serves the metrics of both registries.
func (m metrics) all() http.Handler {
	return promhttp.HandlerFor(prometheus.Gatherers{m.registry, m.orgs}, promhttp.HandlerOpts{})
}

// registerMetrics registers the gauges that are read when they are asked for.
func (s *server) registerMetrics() {
	r, failures := s.metrics.registry, telemetry.ReadFailures(s.metrics.registry)
	r.MustRegister(
		telemetry.NewCollector([]*prometheus.Desc{queueRuns, queueOldest, runningRuns, leases}, s.load, failures, s.log),
		telemetry.NewCollector([]*prometheus.Desc{storedBytes, storedObjects}, s.stored, failures, s.log),
	)
	s.metrics.orgs.MustRegister(
		telemetry.NewCollector([]*prometheus.Desc{orgQueueRuns, orgQueueOldest, orgRunningRuns, orgStoredBytes}, s.orgLoads, failures, s.log),
	)
	if s.worker == nil {
		return
	}
	number := func(name, help string, value func() float64) {
		r.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value))
	}
	number("stint_host_healthy", "1 if sandboxes start on this server, 0 after three failed starts in a row.", func() float64 {
		if s.worker.Healthy() != nil {
			return 0
		}
		return 1
	})
	number("stint_worker_runs", "Runs that this server's worker executes.", func() float64 { return float64(s.worker.Stats().Runs) })
	number("stint_worker_capacity", "Runs that this server's worker can execute at once.", func() float64 { return float64(s.worker.Stats().Capacity) })
	number("stint_sandbox_pool_ready", "Sandboxes that are prepared for future runs.", func() float64 { return float64(s.worker.Stats().Pool.Ready) })
	number("stint_sandbox_pool_size", "Sandboxes that the pool keeps ready if the host is idle.", func() float64 { return float64(s.worker.Stats().Pool.Size) })
	for result, value := range map[string]func() float64{
		"hit":  func() float64 { return float64(s.worker.Stats().Pool.Hits) },
		"miss": func() float64 { return float64(s.worker.Stats().Pool.Misses) },
	} {
		r.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "stint_sandbox_pool_takes_total", Help: "Runs that asked the pool for a sandbox: hit if one was ready.",
			ConstLabels: prometheus.Labels{"result": result},
		}, value))
	}
}

func (s *server) load(ctx context.Context) ([]telemetry.Sample, error) {
	l, err := s.db.Load(ctx)
	if err != nil {
		return nil, err
	}
	return []telemetry.Sample{
		{Gauge: queueRuns, Value: float64(l.Pending)},
		{Gauge: queueOldest, Value: l.Oldest.Seconds()},
		{Gauge: runningRuns, Value: float64(l.Running)},
		{Gauge: leases, Value: float64(l.Workers)},
	}, nil
}

// orgLoads returns the open runs and the storage of the organisations.
func (s *server) orgLoads(ctx context.Context) (samples []telemetry.Sample, err error) {
	orgs, err := s.db.OrgLoads(ctx, maxOrgMetrics)
	for _, o := range orgs {
		name := []string{o.OrgName}
		samples = append(samples,
			telemetry.Sample{Gauge: orgQueueRuns, Value: float64(o.Pending), Labels: name},
			telemetry.Sample{Gauge: orgQueueOldest, Value: o.Oldest.Seconds(), Labels: name},
			telemetry.Sample{Gauge: orgRunningRuns, Value: float64(o.Running), Labels: name})
		u, failed := s.quota.Usage(ctx, o.OrgID)
		if failed != nil {
			err = errors.Join(err, failed)
			continue
		}
		samples = append(samples, telemetry.Sample{Gauge: orgStoredBytes, Value: float64(u.Bytes), Labels: name})
	}
	return samples, err
}

// stored returns the storage of all organisations. After a start, the quota counts the
// objects of each organisation once; until it has, stored returns an error.
func (s *server) stored(ctx context.Context) ([]telemetry.Sample, error) {
	orgs, err := s.db.Orgs(ctx)
	if err != nil {
		return nil, err
	}
	var bytes, objects int64
	for _, org := range orgs {
		u, err := s.quota.Usage(ctx, org)
		if err != nil {
			return nil, err
		}
		bytes, objects = bytes+u.Bytes, objects+u.Objects
	}
	return []telemetry.Sample{{Gauge: storedBytes, Value: float64(bytes)}, {Gauge: storedObjects, Value: float64(objects)}}, nil
}
