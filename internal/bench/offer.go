package bench

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// offered is what an open loop gave.
type offered struct {
	took    Sample
	elapsed time.Duration
}

// offer sends rate requests a second for d, whether or not earlier ones were
// answered, over as many connections as there are. A request that must wait
// for a free connection counts from the moment at which it was due, so a
// server that stalls cannot hide the requests that it held up.
func offer(ctx context.Context, conns []*conn, rate float64, d time.Duration, request []byte, status int) (offered, error) {
	total := int64(rate * d.Seconds())
	took, errs := make([][]time.Duration, len(conns)), make([]error, len(conns))
	var next atomic.Int64
	var wg sync.WaitGroup
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	begin := time.Now()
	for i, c := range conns {
		wg.Go(func() {
			for n := next.Add(1) - 1; n < total && ctx.Err() == nil; n = next.Add(1) - 1 {
				start := sleepUntil(begin.Add(time.Duration(float64(n) / rate * float64(time.Second))))
				if _, err := c.want(status, request); err != nil {
					errs[i] = err
					cancel()
					return
				}
				took[i] = append(took[i], time.Since(start))
			}
		})
	}
	wg.Wait()
	elapsed := time.Since(begin)
	return offered{SampleOf(flat(took)), elapsed}, errors.Join(errs...)
}

// sleepUntil waits for a moment and returns from when on a request counts: the
// moment itself when it has passed, else now, since oversleeping is this
// process's own fault.
func sleepUntil(due time.Time) time.Time {
	wait := time.Until(due)
	if wait <= 0 {
		return due
	}
	time.Sleep(wait)
	return time.Now()
}

// saturate repeats a request on every connection for d.
func saturate(ctx context.Context, conns []*conn, d time.Duration, request []byte, status int) (Measure, error) {
	took := make([][]time.Duration, len(conns))
	n, elapsed, err := closedLoop(ctx, len(conns), d, func(_ context.Context, i int) error {
		start := time.Now()
		_, err := conns[i].want(status, request)
		took[i] = append(took[i], time.Since(start))
		return err
	})
	m := latency(SampleOf(flat(took)))
	m.Rate = perSecond(n, elapsed)
	return m, err
}

// flat joins what several callers took.
func flat(took [][]time.Duration) []time.Duration { return slices.Concat(took...) }
