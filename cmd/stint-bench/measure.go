package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
)

// failure is a panic that ends a scenario, as Fatal ends a test. In other
// goroutines, catch turns it into an error.
type failure struct{ error }

func check(err error) {
	if err != nil {
		panic(failure{err})
	}
}

func must[T any](v T, err error) T {
	check(err)
	return v
}

// catch returns the failure of f.
func catch(f func()) (err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case failure:
			err = p.error
		default:
			panic(p)
		}
	}()
	f()
	return nil
}

const (
	rounds  = 3  // of each rate
	warmUps = 10 // results of each latency that are dropped
)

// inTurn calls all steps once in each round, so that they see the same good and
// bad moments of the machine, and returns the results of each step. It drops
// the results of the warm-up rounds.
func inTurn[T any](ctx context.Context, warmUps, rounds int, steps ...func(context.Context) T) [][]T {
	results := make([][]T, len(steps))
	for round := range warmUps + rounds {
		for i, step := range steps {
			check(ctx.Err())
			if result := step(ctx); round >= warmUps {
				results[i] = append(results[i], result)
			}
		}
	}
	return results
}

// compareRates measures both rates in turn and returns a row with the round of the
// median ratio.
func compareRates(ctx context.Context, what string, measured func(context.Context) float64, anchor string, by func(context.Context) float64) Row {
	results := inTurn(ctx, 0, rounds, by, measured)
	rate, anchorRate := middle(results[1], results[0])
	return compare(what, Measure{Rate: rate}, anchor, Measure{Rate: anchorRate})
}

// middle returns the measured rate and the anchor's of the round with the median
// ratio.
func middle(measured, anchor []float64) (rate, anchorRate float64) {
	order := make([]int, len(measured))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(measured[a]*anchor[b], measured[b]*anchor[a]) })
	i := order[(len(order)-1)/2]
	return measured[i], anchor[i]
}

// quantile returns the smallest duration that at least the share q (0 to 1) does
// not exceed; 0 if there are none.
func quantile(took []time.Duration, q float64) time.Duration {
	if len(took) == 0 {
		return 0
	}
	rank := int(math.Ceil(q*float64(len(took)))) - 1
	return slices.Sorted(slices.Values(took))[max(rank, 0)]
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// timed returns how long f takes.
func timed(f func()) time.Duration {
	start := time.Now()
	f()
	return time.Since(start)
}

// closedLoop lets each caller call f repeatedly for d, at least once, and returns
// the number of calls a second. The first failure ends it.
func closedLoop(ctx context.Context, callers int, d time.Duration, f func(ctx context.Context, caller int)) float64 {
	var calls atomic.Int64
	begin := time.Now()
	concurrently(ctx, callers, func(ctx context.Context, i int) {
		for first := true; first || time.Since(begin) < d && ctx.Err() == nil; first = false {
			f(ctx, i)
			calls.Add(1)
		}
	})
	return float64(calls.Load()) / time.Since(begin).Seconds()
}

// concurrently calls f in n goroutines and waits for them. The first failure ends
// their ctx and is then that of the caller.
func concurrently(ctx context.Context, n int, f func(ctx context.Context, i int)) {
	g, ctx := errgroup.WithContext(ctx)
	for i := range n {
		g.Go(func() error { return catch(func() { f(ctx, i) }) })
	}
	check(g.Wait())
}

// loopRate returns a step that measures the rate of a closed loop.
func loopRate(callers int, d time.Duration, f func(ctx context.Context, caller int)) func(context.Context) float64 {
	return func(ctx context.Context) float64 { return closedLoop(ctx, callers, d, f) }
}

// maxBatch is the number of events that a worker appends at most in one call.
const maxBatch = 512

// paced lets f make rate events a second for d and returns their number. Events
// that are due together are made in one call, as a worker appends in one call
// what its agent has written meanwhile.
func paced(ctx context.Context, rate float64, d time.Duration, f func(n int)) (made int) {
	for begin := time.Now(); ; check(ctx.Err()) {
		elapsed := time.Since(begin)
		due := min(int(elapsed.Seconds()*rate)+1-made, maxBatch)
		switch {
		case elapsed >= d:
			return made
		case due > 0:
			f(due)
			made += due
		default:
			next := time.Duration(float64(made) / rate * float64(time.Second))
			time.Sleep(max(min(next, d)-elapsed, 10*time.Microsecond))
		}
	}
}

const (
	anchorExec    = "fork+exec of /bin/true"
	anchorDurable = "one durable write"
)

// execute runs a program until it is reaped. The program's output is in the error.
func execute(ctx context.Context, env []string, argv ...string) {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		check(fmt.Errorf("%s: %w: %.300s", argv, err, out))
	}
}

// command returns a step that measures a program.
func command(argv ...string) func(context.Context) time.Duration {
	return func(ctx context.Context) time.Duration {
		return timed(func() { execute(ctx, nil, argv...) })
	}
}

var forkExec = command("/bin/true")

// forkExecRate returns a step that measures /bin/true in a closed loop.
func forkExecRate(callers int, d time.Duration) func(context.Context) float64 {
	return loopRate(callers, d, func(ctx context.Context, _ int) { execute(ctx, nil, "/bin/true") })
}

func writeDurably(f *os.File, b []byte) error {
	_, err := f.Write(b)
	return errors.Join(err, unix.Fdatasync(int(f.Fd())))
}

// durableWrites measures the least that a durable step costs here: appending 512
// bytes to a file and syncing its data, one after the other.
func (l *lab) durableWrites(ctx context.Context) Measure {
	f := must(os.CreateTemp(l.dir, "durable"))
	defer f.Close()
	var took []time.Duration
	for begin := time.Now(); time.Since(begin) < l.anchor && ctx.Err() == nil; {
		took = append(took, timed(func() { check(writeDurably(f, make([]byte, 512))) }))
	}
	return latency(took)
}

// groupAppends returns a step that measures how many records a second become
// durable if the writers append them to one file and one goroutine writes and
// syncs all that wait.
func (l *lab) groupAppends(writers, size int) func(context.Context) float64 {
	return func(ctx context.Context) float64 {
		f := must(os.CreateTemp(l.dir, "group"))
		defer f.Close()
		queue := make(chan chan error, writers)
		defer close(queue)
		go func() {
			for first := range queue {
				waiting := []chan error{first}
				for len(queue) > 0 {
					waiting = append(waiting, <-queue)
				}
				err := writeDurably(f, bytes.Repeat(make([]byte, size), len(waiting)))
				for _, done := range waiting {
					done <- err
				}
			}
		}()
		return closedLoop(ctx, writers, l.anchor, func(context.Context, int) {
			done := make(chan error, 1)
			queue <- done
			check(<-done)
		})
	}
}
