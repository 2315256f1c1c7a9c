package run

import (
	"bytes"
	"context"
	"encoding/json"
	"math"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/sandbox"
	"github.com/stint-dev/stint/internal/store"
)

// sampleInterval is the time between two measurements of the sandbox.
const sampleInterval = time.Second

// sampleUsage measures the sandbox now, every second, and when ctx ends.
func (s *state) sampleUsage(ctx context.Context) {
	var cpu cpuMeter
	var usage json.RawMessage // as stored last
	place := &store.Place{Epoch: s.a.Position.Epoch, Isolation: s.driver.Name(), ImageDigest: s.digest}
	changed := func() *store.Place {
		now := s.meter.JSON()
		if bytes.Equal(now, usage) {
			return nil
		}
		usage, place.Usage = now, now
		return place
	}
	s.sample(ctx, &cpu, place)
	tick := time.NewTicker(sampleInterval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			s.sample(ctx, &cpu, changed())
		case <-ctx.Done():
			s.sample(ctx, &cpu, changed())
			return
		}
	}
}

// sample stores one measurement, and the place of the attempt unless it is nil.
func (s *state) sample(ctx context.Context, cpu *cpuMeter, place *store.Place) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	now := s.Now()
	u, err := s.sandbox.Usage(ctx)
	if err != nil {
		s.log.Debug("measure sandbox", "error", err)
		return
	}
	s.memoryKills = max(s.memoryKills, u.OOMKills)
	sample := stint.MetricsSample{
		Timestamp:    stint.TimeOf(now),
		CPUPercent:   cpu.percent(u, now),
		MemoryUsedMb: u.Memory >> 20, MemoryTotalMb: u.MemoryLimit >> 20,
		DiskUsedMb: u.Disk >> 20, DiskTotalMb: u.DiskLimit >> 20,
	}
	if err := s.Dispatcher.Sample(ctx, s.a.Run.ID, []stint.MetricsSample{sample}, place); err != nil {
		s.log.Warn("store metrics", "error", err)
	}
}

// warnOfMemoryKills adds a warning to the log if processes were killed for the memory limit
// although the run did not end for this reason.
func (s *state) warnOfMemoryKills() {
	if s.memoryKills == 0 || s.outcome.reason == stint.ReasonOutOfMemory {
		return
	}
	metadata := map[string]any{"kills": s.memoryKills}
	limit := "the memory limit"
	if m := s.resources().Memory; m > 0 {
		limit += " of " + stint.Size(m).String()
		metadata["memoryLimitBytes"] = m
	}
	s.output.System("warn", "A process in the sandbox was killed because "+limit+" was reached, and the agent went on. Raise resources.memory in the agent's definition if its result is incomplete.", metadata)
}

// minInterval is the shortest interval over which CPU use is computed. Over a shorter
// interval, the delay between reading the clock and the measurement distorts the result.
const minInterval = 100 * time.Millisecond

// cpuMeter computes CPU use from successive measurements.
type cpuMeter struct {
	used   time.Duration // CPU time used at the beginning of the interval
	at     time.Time     // beginning of the interval
	latest float64       // CPU use in the previous interval, in percent of a core
}

// percent returns the CPU use since the previous measurement; 100 is one core. The first
// call returns 0. Within minInterval after a measurement, percent returns the same value
// again.
func (m *cpuMeter) percent(u sandbox.Usage, now time.Time) float64 {
	wall := now.Sub(m.at)
	switch {
	case m.at.IsZero() || wall < 0:
	case wall < minInterval:
		return m.latest
	default:
		p := 100 * float64(u.CPU-m.used) / float64(wall)
		m.latest = math.Round(max(0, p)*10) / 10
	}
	m.used, m.at = u.CPU, now
	return m.latest
}
