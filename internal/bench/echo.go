package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"
)

const anchorExec = "fork+exec of /bin/true"

// benchEcho measures, one run after the other, how soon a client that creates
// a run reads the first word of its agent.
func (l *lab) benchEcho(ctx context.Context) error {
	n := max(l.a.Samples/4, 50)
	execs, err := forkExecs(ctx, n)
	if err != nil {
		return err
	}
	s, err := l.echo(ctx, n)
	if err != nil {
		return err
	}
	m, e := latency(s), latency(execs)
	row := Row{What: "POST → first streamed output of `echo`", Measured: m, Goals: []Goal{atMost("p50", m.P50Ms, 15, "ms")}}
	l.add(row.compare(anchorExec, e, m.P50Ms, e.P50Ms))
	return nil
}

// echo works n runs, one after the other, on a server with the flags.
func (l *lab) echo(ctx context.Context, n int, flags ...string) (s Sample, err error) {
	err = l.withServer(ctx, func(v *service) error {
		if err := v.agent(ctx, "speaker"); err != nil {
			return err
		}
		var took []time.Duration
		for i := range n + warmUps {
			d, err := v.firstByte(ctx)
			if err != nil {
				return err
			}
			if i >= warmUps {
				took = append(took, d)
			}
		}
		s = SampleOf(took)
		return nil
	}, flags...)
	return s, err
}

// firstByte creates a run, follows it to its end and returns when its output
// began. The connections are made beforehand, as a client's are.
func (s *service) firstByte(ctx context.Context) (time.Duration, error) {
	conns, closeAll, err := dialAll(ctx, s.address, 2)
	if err != nil {
		return 0, err
	}
	defer closeAll()
	start := time.Now()
	body, err := conns[0].want(http.StatusAccepted, request("POST", "/v1/runs", s.token, newRun("speaker", "echo hello")))
	if err != nil {
		return 0, err
	}
	id, err := idOf(body)
	if err != nil {
		return 0, err
	}
	first, err := conns[1].output(request("GET", "/v1/runs/"+id+"/events", s.token, "", "Accept: text/event-stream"))
	if err != nil {
		return 0, fmt.Errorf("follow %s: %w", id, err)
	}
	return first.Sub(start), nil
}

// output follows a stream to its end and returns when the first output came.
func (c *conn) output(get []byte) (first time.Time, err error) {
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		return first, err
	}
	if _, err := c.Write(get); err != nil {
		return first, err
	}
	status, length, err := c.readHead()
	if err != nil || status != http.StatusOK || length >= 0 {
		return first, errors.Join(err, fmt.Errorf("status %d and no stream", status))
	}
	for c.body = c.body[:0]; ; {
		n, err := c.readChunk()
		if first.IsZero() && bytes.Contains(c.body, []byte("event: output")) {
			first = time.Now()
		}
		switch {
		case err != nil:
			return first, err
		case n == 0 && first.IsZero():
			return first, fmt.Errorf("no output came: %.300s", c.body)
		case n == 0:
			return first, nil
		}
	}
}

// benchThroughput works many short runs at once, each from its creation to its
// end, through the sandbox.
func (l *lab) benchThroughput(ctx context.Context) error {
	const callers = 16
	execs, elapsed, err := closedLoop(ctx, callers, l.a.Anchor, func(ctx context.Context, _ int) error {
		_, err := forkExecs(context.WithoutCancel(ctx), 1)
		return err
	})
	if err != nil {
		return err
	}
	return l.withServer(ctx, func(s *service) error {
		if err := s.agent(ctx, "speaker"); err != nil {
			return err
		}
		conns, closeAll, err := dialAll(ctx, s.address, callers)
		if err != nil {
			return err
		}
		defer closeAll()
		post := request("POST", "/v1/runs", s.token, newRun("speaker", "echo hello"), "Prefer: wait=20")
		var left atomic.Int64
		left.Store(int64(l.a.Echoes))
		took := make([][]time.Duration, callers)
		ctx, enough := context.WithCancel(ctx)
		defer enough()
		n, elapsedRuns, err := closedLoop(ctx, callers, patience, func(_ context.Context, i int) error {
			if left.Add(-1) < 0 {
				enough()
				return context.DeadlineExceeded
			}
			start := time.Now()
			_, err := conns[i].complete(post)
			took[i] = append(took[i], time.Since(start))
			return err
		})
		if err != nil {
			return err
		}
		m, e := latency(SampleOf(flat(took))), Measure{Rate: perSecond(execs, elapsed)}
		m.Rate = perSecond(n, elapsedRuns)
		row := Row{What: fmt.Sprintf("`echo` runs from creation to end, %d at once", callers), Measured: m}
		l.add(row.compare(fmt.Sprintf("%s, %d at once", anchorExec, callers), e, m.Rate, e.Rate))
		return nil
	})
}
