package output

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/stint-dev/stint/internal/store"
)

// Bounds of the pause before a failed append is repeated. If no attempt
// succeeds, the worker's lease expires, which ends the attempts.
const (
	firstRetry = 20 * time.Millisecond
	lastRetry  = time.Second
)

// appendAll appends batches until the queue is closed and empty, or the run is
// lost.
func (p *Pipeline) appendAll(ctx context.Context) {
	defer close(p.appended)
	for number := int64(1); ; {
		batch, state := p.queue.next()
		switch state {
		case queueDone:
			return
		case queueWaiting:
			<-p.queue.wake
			continue
		}
		batch.Token = strconv.FormatInt(number, 10) // identifies a repeated append
		number++
		if !p.append(ctx, batch) {
			p.queue.fence()
			return
		}
	}
}

// append stores a batch and reports whether it was stored. It repeats a failed append
// until the append succeeds or is fenced, or ctx ends.
func (p *Pipeline) append(ctx context.Context, b store.Batch) bool {
	for wait := firstRetry; ; wait = min(2*wait, lastRetry) {
		head, err := p.c.Journal.Append(ctx, p.position, b)
		if err == nil {
			p.position.After = head
			return true
		}
		if _, fenced := errors.AsType[*store.FencedError](err); fenced {
			p.c.Fenced()
			return false
		}
		if ctx.Err() != nil {
			return false
		}
		p.c.Logger.Warn("append to journal; trying again", "error", err)
		select {
		case <-time.After(wait):
		case <-ctx.Done():
		}
	}
}
