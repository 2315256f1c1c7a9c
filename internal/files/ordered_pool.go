package files

import (
	"context"

	"golang.org/x/sync/errgroup"
)

// line works on jobs with several goroutines and hands them on in the order
// in which they came. The number of jobs between send and take is bounded.
//
// One goroutine sends and, at the end, calls finish or abort, exactly once.
type orderedPool[J any] struct {
	ctx   context.Context
	stop  context.CancelCauseFunc
	group *errgroup.Group
	order chan poolJob[J]
	work  chan poolJob[J]
}

type poolJob[J any] struct {
	job  J
	done chan struct{}
}

// newLine starts workers goroutines, each with its own work function, and one
// that calls take for every job.
func newOrderedPool[J any](ctx context.Context, workers, length int, work func() func(J) error, take func(J) error) *orderedPool[J] {
	ctx, stop := context.WithCancelCause(ctx)
	group, ctx := errgroup.WithContext(ctx)
	l := &orderedPool[J]{
		ctx: ctx, stop: stop, group: group,
		order: make(chan poolJob[J], length), work: make(chan poolJob[J], length),
	}
	for range workers {
		f := work()
		group.Go(func() error { return l.runWorker(f) })
	}
	group.Go(func() error { return l.runTaker(take) })
	return l
}

func (l *orderedPool[J]) runWorker(work func(J) error) error {
	for t := range l.work {
		if l.ctx.Err() != nil {
			return context.Cause(l.ctx)
		}
		if err := work(t.job); err != nil {
			return err
		}
		close(t.done)
	}
	return nil
}

func (l *orderedPool[J]) runTaker(take func(J) error) error {
	for t := range l.order {
		select {
		case <-t.done:
		case <-l.ctx.Done():
			return context.Cause(l.ctx)
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

// send queues a job. One that needs no work only keeps its turn.
func (l *orderedPool[J]) send(j J, needsWork bool) error {
	t := poolJob[J]{job: j, done: alreadyDone}
	if needsWork {
		t.done = make(chan struct{})
	}
	select {
	case l.order <- t:
	case <-l.ctx.Done():
		return context.Cause(l.ctx)
	}
	if !needsWork {
		return nil
	}
	select {
	case l.work <- t:
	case <-l.ctx.Done():
		return context.Cause(l.ctx)
	}
	return nil
}

// finish waits until every job was taken.
func (l *orderedPool[J]) finish() error {
	defer l.stop(nil)
	close(l.order)
	close(l.work)
	return l.group.Wait()
}

// abort drops what was not taken and waits for the goroutines. It returns the
// error that ended them when that came first, else err.
func (l *orderedPool[J]) abort(err error) error {
	l.stop(err)
	close(l.order)
	close(l.work)
	if first := l.group.Wait(); first != nil {
		return first
	}
	return err
}
