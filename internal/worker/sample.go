package worker

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/sandbox"
)

// sampleInterval is how often the sandbox is measured.
const sampleInterval = time.Second

// sample measures the sandbox now, every second and when stopped.
func (j *job) sample() (stop func()) {
	quit := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		s := sampler{j: j}
		s.take()
		tick := time.NewTicker(sampleInterval)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				s.take()
			case <-quit:
				s.take()
				return
			}
		}
	})
	return func() { close(quit); wg.Wait() }
}

// shortest is the least time over which the use of the CPU is told: in less,
// the moment between a reading and its time would count for much.
const shortest = 100 * time.Millisecond

type sampler struct {
	j    *job
	last sandbox.Usage // at the beginning of the present interval
	at   time.Time     // of last
	told float64       // of the interval before
}

func (s *sampler) take() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.j.ctx), 5*time.Second)
	defer cancel()
	now := s.j.e.c.Now()
	u, err := s.j.sandbox.Usage(ctx)
	if err != nil {
		s.j.log.Debug("measure sandbox", "error", err)
		return
	}
	sample := stint.MetricsSample{
		Timestamp:    stint.TimeOf(now),
		CPUPercent:   s.percent(u, now),
		MemoryUsedMb: u.Memory >> 20, MemoryTotalMb: u.MemoryLimit >> 20,
		DiskUsedMb: u.Disk >> 20, DiskTotalMb: u.DiskLimit >> 20,
	}
	if err := s.j.e.c.Dispatcher.Sample(ctx, s.j.a.Run.ID, []stint.MetricsSample{sample}); err != nil {
		s.j.log.Warn("store metrics", "error", err)
	}
}

// percent is the CPU use since the last sample; 100 is one core. A sample right
// after another tells what that one did.
func (s *sampler) percent(u sandbox.Usage, now time.Time) float64 {
	wall := now.Sub(s.at)
	switch {
	case s.at.IsZero() || wall < 0:
	case wall < shortest:
		return s.told
	default:
		p := 100 * float64(u.CPU-s.last.CPU) / float64(wall)
		s.told = math.Round(max(0, p)*10) / 10
	}
	s.last, s.at = u, now
	return s.told
}
