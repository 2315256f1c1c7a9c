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

// failure is the value of a panic that ends a scenario, as Fatal ends a test. catch
// turns the panic into an error.
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

// catch calls f. It returns the error with which check or must ended f, or nil. Other
// panics continue.
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
	rounds  = 3  // measurements of each rate
	warmUps = 10 // first results of each latency, which are dropped
)

// inTurn calls every step once in each round, so that changes of the machine's speed
// affect all steps alike. It returns the results of each step without those of the
// warm-up rounds.
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

// compareRates measures a rate and its anchor, which by returns, in turn. It returns a
// row with the two rates of the round with the median ratio.
func compareRates(ctx context.Context, what string, measured func(context.Context) float64, anchor string, by func(context.Context) float64) Row {
	results := inTurn(ctx, 0, rounds, by, measured)
	rate, anchorRate := middle(results[1], results[0])
	return compare(what, Measure{Rate: rate}, anchor, Measure{Rate: anchorRate})
}

// middle returns the measured rate and the anchor's rate of the round with the median
// ratio of these rates.
func middle(measured, anchor []float64) (rate, anchorRate float64) {
	order := make([]int, len(measured))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(measured[a]*anchor[b], measured[b]*anchor[a]) })
	i := order[(len(order)-1)/2]
	return measured[i], anchor[i]
}

// quantile returns the smallest duration in took that at least the share q (0 to 1) of
// the durations does not exceed. It returns 0 if took is empty.
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

// closedLoop starts the given number of callers. Each calls f repeatedly for the
// duration d, at least once. closedLoop returns the number of calls per second. The
// first failure ends all callers.
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

// concurrently calls f in n goroutines and waits for them. The first failure cancels
// the ctx of all calls. After all have returned, concurrently fails with the first
// failure.
func concurrently(ctx context.Context, n int, f func(ctx context.Context, i int)) {
	g, ctx := errgroup.WithContext(ctx)
	for i := range n {
		g.Go(func() error { return catch(func() { f(ctx, i) }) })
	}
	check(g.Wait())
}

// loopRate returns a step that measures a rate with closedLoop.
func loopRate(callers int, d time.Duration, f func(ctx context.Context, caller int)) func(context.Context) float64 {
	return func(ctx context.Context) float64 { return closedLoop(ctx, callers, d, f) }
}

// maxBatch is the maximum number of events that a worker appends in one call.
const maxBatch = 512

// paced calls f so that f makes rate events per second for the duration d, and returns
// the number of events. Events that are due at the same time are made by one call f(n),
// as a worker appends all output since its last append in one call.
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

// execute runs a program and waits until it has exited. If the program fails, the
// scenario fails with an error that contains the beginning of the program's output.
func execute(ctx context.Context, env []string, argv ...string) {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		check(fmt.Errorf("%s: %w: %.300s", argv, err, out))
	}
}

// command returns a step that measures how long a program runs.
func command(argv ...string) func(context.Context) time.Duration {
	return func(ctx context.Context) time.Duration {
		return timed(func() { execute(ctx, nil, argv...) })
	}
}

var forkExec = command("/bin/true")

// forkExecRate returns a step that measures how often per second the callers run
// /bin/true.
func forkExecRate(callers int, d time.Duration) func(context.Context) float64 {
	return loopRate(callers, d, func(ctx context.Context, _ int) { execute(ctx, nil, "/bin/true") })
}

func writeDurably(f *os.File, b []byte) error {
	_, err := f.Write(b)
	return errors.Join(err, unix.Fdatasync(int(f.Fd())))
}

// durableWrites measures the latency of the cheapest durable operation on this machine:
// appending 512 bytes to a file and syncing its data.
func (l *lab) durableWrites(ctx context.Context) Measure {
	f := must(os.CreateTemp(l.dir, "durable"))
	defer f.Close()
	var took []time.Duration
	for begin := time.Now(); time.Since(begin) < l.anchor && ctx.Err() == nil; {
		took = append(took, timed(func() { check(writeDurably(f, make([]byte, 512))) }))
	}
	return latency(took)
}

// groupAppends returns a step that measures how many records of size bytes per second
// become durable in one file. The writers wait for one goroutine, which writes and
// syncs all waiting records at once.
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
