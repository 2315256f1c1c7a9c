package bench

import (
	"context"
	"errors"
	"time"
)

// settle is how long an idle worker is given to begin waiting.
const settle = 3 * time.Millisecond

const anchorCommit = "one commit of the database"

// benchClaim measures how soon an idle worker holds a run that is created: the
// creation is made durable, claimed and handed over. Each is measured beside a
// plain commit.
func (l *lab) benchClaim(ctx context.Context) error {
	return l.inWorld(ctx, func(w *world, dir string) error {
		var took, commits []time.Duration
		for i := range l.a.Samples + warmUps {
			commit, err := timed(func() error { return w.Store.Ping(ctx) })
			if err != nil {
				return err
			}
			claim, err := w.createAndClaim(ctx)
			if err != nil {
				return err
			}
			if i >= warmUps {
				took, commits = append(took, claim), append(commits, commit)
			}
		}
		disk, err := durableWrites(ctx, dir, l.a.Anchor)
		if err != nil {
			return err
		}
		m, c, d := latency(SampleOf(took)), latency(SampleOf(commits)), latency(disk)
		row := Row{What: "create → claimed, idle worker", Measured: m}.compare(anchorCommit, c, m.P50Ms, c.P50Ms)
		row.Goals = []Goal{atMost("", row.Ratio, 1.5, "×")}
		l.add(row)
		l.add(Row{What: "one commit of the database", Measured: c}.compare(anchorDurable, d, c.P50Ms, d.P50Ms))
		return nil
	})
}

// warmUps are made and not counted.
const warmUps = 10

func timed(f func() error) (time.Duration, error) {
	start := time.Now()
	err := f()
	return time.Since(start), err
}

func (w *world) createAndClaim(ctx context.Context) (time.Duration, error) {
	type claimed struct {
		at  time.Time
		n   int
		err error
	}
	result := make(chan claimed, 1)
	go func() {
		assigned, err := w.Dispatch.Next(ctx, w.worker, 1)
		result <- claimed{time.Now(), len(assigned), err}
	}()
	time.Sleep(settle)
	start := time.Now()
	if _, err := w.create(ctx); err != nil {
		return 0, err
	}
	c := <-result
	if c.err == nil && c.n != 1 {
		c.err = errors.New("nothing was claimed")
	}
	return c.at.Sub(start), c.err
}

// benchCancel measures how soon the worker of a running run is told of its
// cancel, from the call on: the decision is made durable first.
func (l *lab) benchCancel(ctx context.Context) error {
	return l.inWorld(ctx, func(w *world, _ string) error {
		held, err := w.running(ctx, l.a.Samples)
		if err != nil {
			return err
		}
		var took, commits []time.Duration
		for _, at := range held {
			commit, err := timed(func() error { return w.Store.Ping(ctx) })
			if err != nil {
				return err
			}
			told, err := w.cancelAndTell(ctx, at.RunID)
			if err != nil {
				return err
			}
			took, commits = append(took, told), append(commits, commit)
		}
		m, c := latency(SampleOf(took)), latency(SampleOf(commits))
		row := Row{What: "cancel → worker told", Measured: m, Goals: []Goal{atMost("p99", m.P99Ms, 5, "ms")}}
		l.add(row.compare(anchorCommit, c, m.P50Ms, c.P50Ms))
		return nil
	})
}

func (w *world) cancelAndTell(ctx context.Context, run string) (time.Duration, error) {
	wake, stop := w.Dispatch.WatchStop(run)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	told := make(chan time.Time, 1)
	go func() {
		select {
		case <-wake:
			told <- time.Now()
		case <-ctx.Done():
			close(told)
		}
	}()
	start := time.Now()
	if _, err := w.Runs.Cancel(ctx, w.caller, run); err != nil {
		return 0, err
	}
	at, ok := <-told
	if !ok {
		return 0, errors.New("the worker was not told")
	}
	return at.Sub(start), nil
}
