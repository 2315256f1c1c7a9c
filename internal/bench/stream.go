package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"
)

// runRate is how many events a second a run has in the scenario of streams.
const runRate = 5

// benchStream measures how long events are on their way from the worker that
// appends them, through a commit, to the readers of many runs.
func (l *lab) benchStream(ctx context.Context) error {
	disk, err := durableWrites(ctx, l.dir, l.a.Anchor)
	if err != nil {
		return err
	}
	n := readers(l.a.Streams)
	return l.withRuns(ctx, n, func(host *child, h hosted) error {
		s, err := newStreams()
		if err != nil {
			return err
		}
		defer s.close()
		if err := s.connect(ctx, h.Address, n, h.follow); err != nil {
			return err
		}
		if _, err := s.follow(ctx, host, order{Do: doEachRun, Rate: 1, For: time.Second}, 1); err != nil { // warm
			return err
		}
		s.timed = true
		got, err := s.follow(ctx, host, order{Do: doEachRun, Rate: runRate, For: 2 * l.a.Each}, 1)
		if err != nil {
			return err
		}
		m, d := latency(got.took), latency(disk)
		m.Rate = got.rate()
		row := Row{
			What:     fmt.Sprintf("append → reader, %s runs with a stream and %d events/s each", number(float64(n)), runRate),
			Measured: m,
			Goals:    []Goal{atMost("p50", m.P50Ms, 2, "ms"), atMost("p99", m.P99Ms, 15, "ms")},
		}
		l.add(row.compare(anchorDurable, d, m.P50Ms, d.P50Ms))
		return nil
	})
}

// withRuns starts a host with n runs that are running.
func (l *lab) withRuns(ctx context.Context, n int, f func(host *child, h hosted) error) (err error) {
	dir, err := l.folder()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	return l.withHost(ctx, f, hostService, dir, strconv.Itoa(n))
}

// follow is the request for the stream of the run with that number.
func (h *hosted) follow(i int) []byte {
	return request("GET", "/v1/runs/"+h.Runs[i]+"/events", h.Token, "", "Accept: text/event-stream")
}
