package ordered

import (
	"context"

	"golang.org/x/sync/errgroup"
)

// Pool processes jobs in several goroutines and passes them on in their original
// order. The number of unfinished jobs is bounded.
//
// One goroutine calls Send and, at the end, either Finish or Abort, exactly once.
type Pool[J any] struct {
	Ctx   context.Context // ends with NewPool's context, an error of a job, Finish, or Abort
	stop  context.CancelCauseFunc
	group *errgroup.Group
	order chan poolJob[J]
	work  chan poolJob[J]
}

type poolJob[J any] struct {
	job  J
	done chan struct{} // closed when a worker has processed the job
}

// NewPool returns a pool and starts its goroutines: workers goroutines, each with a
// function that work returned for it, and one that calls take for every job in the
// order of Send. length bounds the jobs that wait.
func NewPool[J any](ctx context.Context, workers, length int, work func() func(J) error, take func(J) error) *Pool[J] {
	ctx, stop := context.WithCancelCause(ctx)
	group, ctx := errgroup.WithContext(ctx)
	l := &Pool[J]{
		Ctx: ctx, stop: stop, group: group,
		order: make(chan poolJob[J], length), work: make(chan poolJob[J], length),
	}
	for range workers {
		f := work()
		group.Go(func() error { return l.runWorker(f) })
	}
	group.Go(func() error { return l.runTaker(take) })
	return l
}

func (l *Pool[J]) runWorker(work func(J) error) error {
	for t := range l.work {
		if l.Ctx.Err() != nil {
			return context.Cause(l.Ctx)
		}
		if err := work(t.job); err != nil {
			return err
		}
		close(t.done)
	}
	return nil
}

func (l *Pool[J]) runTaker(take func(J) error) error {
	for t := range l.order {
		select {
		case <-t.done:
		case <-l.Ctx.Done():
			return context.Cause(l.Ctx)
		}
		if err := take(t.job); err != nil {
			return err
		}
	}
	return nil
}

var alreadyDone = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// Send queues a job. If needsWork is not set, no worker processes the job; it is only
// passed to take in its position. If the pool has failed, Send returns the error.
func (l *Pool[J]) Send(j J, needsWork bool) error {
	t := poolJob[J]{job: j, done: alreadyDone}
	if needsWork {
		t.done = make(chan struct{})
	}
	select {
	case l.order <- t:
	case <-l.Ctx.Done():
		return context.Cause(l.Ctx)
	}
	if !needsWork {
		return nil
	}
	select {
	case l.work <- t:
	case <-l.Ctx.Done():
		return context.Cause(l.Ctx)
	}
	return nil
}

// Finish waits until take was called for every job. It returns the first error, if
// any.
func (l *Pool[J]) Finish() error {
	defer l.stop(nil)
	close(l.order)
	close(l.work)
	return l.group.Wait()
}

// Abort drops unfinished jobs and waits for the goroutines. If an error has ended the
// goroutines before, Abort returns that error, otherwise err.
func (l *Pool[J]) Abort(err error) error {
	l.stop(err)
	close(l.order)
	close(l.work)
	if first := l.group.Wait(); first != nil {
		return first
	}
	return err
}
