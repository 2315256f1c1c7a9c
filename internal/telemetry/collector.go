package telemetry

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Limits of a Collector.
const (
	collectLimit = 2 * time.Second // for one call of its source
	collectEvery = 5 * time.Second // how long a result is used
)

// Sample is the value of a gauge with the values of its labels.
type Sample struct {
	Gauge  *prometheus.Desc
	Value  float64
	Labels []string
}

// Gauge returns the description of a gauge for the samples of a Collector.
func Gauge(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

// Collector collects gauges whose values must be read when they are asked for. It calls
// its source at most once in 5 seconds and for at most 2 seconds, and otherwise reports the
// previous values. If the source fails, it counts the failure and reports the samples that
// the source returned beside the error. It is safe for concurrent use.
type Collector struct {
	gauges []*prometheus.Desc
	source func(ctx context.Context) ([]Sample, error)
	failed prometheus.Counter
	log    *slog.Logger

	mu      sync.Mutex // guards the fields below; held while the source is read
	at      time.Time
	samples []Sample
}

// NewCollector returns a collector of the gauges. The source returns their samples.
// failures counts failed calls of the source.
func NewCollector(gauges []*prometheus.Desc, source func(context.Context) ([]Sample, error), failures prometheus.Counter, log *slog.Logger) *Collector {
	return &Collector{gauges: gauges, source: source, failed: failures, log: log}
}

// ReadFailures returns a counter for the failed calls of collectors, registered with r.
func ReadFailures(r prometheus.Registerer) prometheus.Counter {
	c := counter("stint_metrics_read_failures_total", "Failed attempts to read metrics from the database or the storage.")
	r.MustRegister(c)
	return c
}

// Describe implements prometheus.Collector.
func (c *Collector) Describe(ch chan<- *prometheus.Desc) {
	for _, g := range c.gauges {
		ch <- g
	}
}

// Collect implements prometheus.Collector.
func (c *Collector) Collect(ch chan<- prometheus.Metric) {
	for _, s := range c.read() {
		ch <- prometheus.MustNewConstMetric(s.Gauge, prometheus.GaugeValue, s.Value, s.Labels...)
	}
}

func (c *Collector) read() []Sample {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.at.IsZero() && time.Since(c.at) < collectEvery {
		return c.samples
	}
	ctx, cancel := context.WithTimeout(context.Background(), collectLimit)
	defer cancel()
	samples, err := c.source(ctx)
	if err != nil {
		c.failed.Inc()
		c.log.Warn("metrics could not be read", "error", err)
	}
	c.samples, c.at = samples, time.Now()
	return samples
}
