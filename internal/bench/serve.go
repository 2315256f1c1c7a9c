package bench

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"
)

// benchServe measures the life of `stint serve` from outside.
func (l *lab) benchServe(ctx context.Context) error {
	if err := l.benchStart(ctx); err != nil {
		return err
	}
	return l.benchCrash(ctx)
}

// benchStart measures starts on an empty folder, starts on one that is in use,
// and what the server holds while it does nothing.
func (l *lab) benchStart(ctx context.Context) (err error) {
	starts := max(l.a.Samples/50, 2)
	execs, err := forkExecs(ctx, l.a.Samples/5+1)
	if err != nil {
		return err
	}
	var first, again []time.Duration
	var idle int64
	for range starts {
		dir, err := l.folder()
		if err != nil {
			return err
		}
		if err := l.serving(ctx, dir, func(s *service) error { first = append(first, s.ready); return nil }); err != nil {
			return err
		}
		err = l.serving(ctx, dir, func(s *service) error {
			again = append(again, s.ready)
			if len(again) < starts {
				return nil
			}
			time.Sleep(l.a.Anchor)
			idle, err = residentBytes(s.cmd.Process.Pid)
			return err
		})
		if err := errors.Join(err, os.RemoveAll(dir)); err != nil {
			return err
		}
	}
	e := latency(execs)
	for _, r := range []struct {
		what string
		took []time.Duration
	}{{"start → ready, empty data folder", first}, {"start → ready, folder in use", again}} {
		m := latency(SampleOf(r.took))
		row := Row{What: r.what, Measured: m, Goals: []Goal{atMost("p99", m.P99Ms, 300, "ms")}}
		l.add(row.compare(anchorExec, e, m.P50Ms, e.P50Ms))
	}
	mib := float64(idle) / (1 << 20)
	l.add(Row{What: "memory of the idle server", Measured: Measure{Value: mib, Unit: "MiB"}, Goals: []Goal{atMost("", mib, 60, "MiB")}})
	return nil
}

// What a server works and has queued when it is killed.
const (
	crashRunning = 8
	crashPending = 50
)

// benchCrash kills a server that is at work and measures how soon the next one
// serves. Every run that was acknowledged must be there.
func (l *lab) benchCrash(ctx context.Context) (err error) {
	dir, err := l.folder()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	places := []string{"--capacity", fmt.Sprint(crashRunning)}
	s, err := l.serve(ctx, dir, places...)
	if err != nil {
		return err
	}
	acknowledged, err := s.occupy(ctx)
	s.kill()
	if err != nil {
		return err
	}
	return l.serving(ctx, dir, func(s *service) error {
		if err := s.have(ctx, acknowledged); err != nil {
			return err
		}
		took := milliseconds(s.ready)
		l.add(Row{
			What:     fmt.Sprintf("kill -9 with %d running → serving", crashRunning),
			Measured: Measure{Value: took, Unit: "ms"},
			Goals:    []Goal{atMost("", took, 1000, "ms")},
			Note:     fmt.Sprintf("all %d acknowledged runs were there afterwards.", len(acknowledged)),
		})
		return nil
	}, places...)
}

// occupy fills the server's places and queues more.
func (s *service) occupy(ctx context.Context) (acknowledged []string, err error) {
	if err := s.agent(ctx, "sleeper"); err != nil {
		return nil, err
	}
	for range crashRunning {
		id, err := s.start(ctx, "sleeper", sleeper)
		if err != nil {
			return nil, err
		}
		acknowledged = append(acknowledged, id)
	}
	c, err := dial(ctx, s.address)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	post := request("POST", "/v1/runs", s.token, newRun("sleeper", sleeper))
	for range crashPending {
		body, err := c.want(http.StatusAccepted, post)
		if err != nil {
			return nil, err
		}
		id, err := idOf(body)
		if err != nil {
			return nil, err
		}
		acknowledged = append(acknowledged, id)
	}
	return acknowledged, nil
}

// have reads every run.
func (s *service) have(ctx context.Context, ids []string) error {
	c, err := dial(ctx, s.address)
	if err != nil {
		return err
	}
	defer c.Close()
	for _, id := range ids {
		if _, err := c.want(http.StatusOK, request("GET", "/v1/runs/"+id, s.token, "")); err != nil {
			return fmt.Errorf("an acknowledged run is lost: %w", err)
		}
	}
	return nil
}
