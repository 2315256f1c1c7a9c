package feed

import (
	"context"
	"fmt"
	"sync"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/store"
)

// readBatch is how many events a reader takes from the journal at once.
const readBatch = 512

// What one Next returns is bounded, in bytes, but for a single frame that is
// larger: from the ring, which many read at once, and from the journal, where
// what was read and is not returned is read again.
const (
	maxWrite = 64 << 10
	maxOwn   = store.MaxReadBytes
)

var buffers = sync.Pool{New: func() any { b := make([]byte, 0, 4<<10); return &b }}

// Follower is one reader of one run. It is for one goroutine.
type Follower struct {
	feed     *Feed
	runID    string
	topic    *topic
	position int64
	buffer   *[]byte // of the frames returned last; nil while waiting
}

// Follow opens a reader behind the event with the number after. Close it.
func (f *Feed) Follow(_ context.Context, runID string, after int64) (*Follower, error) {
	return &Follower{feed: f, runID: runID, topic: f.join(runID), position: after}, nil
}

// Close ends the reader.
func (r *Follower) Close() {
	r.release()
	r.feed.leave(r.runID, r.topic)
}

func (r *Follower) release() {
	if r.buffer != nil {
		if cap(*r.buffer) <= maxWrite {
			buffers.Put(r.buffer)
		}
		r.buffer = nil
	}
}

// Next waits until there are events after the reader's position and returns
// their frames, many at once when many are there, and the number of the last.
// done tells that the run's last event is among them. The frames are valid
// until the next call. It returns the context's error when that ends first.
func (r *Follower) Next(ctx context.Context) (frames []byte, last int64, done bool, err error) {
	r.release()
	for {
		frames, done, wake := r.fromRing()
		switch {
		case frames != nil:
			return frames, r.position, done, nil
		case wake != nil:
			select {
			case <-wake:
			case <-ctx.Done():
				return nil, r.position, false, ctx.Err()
			}
		default:
			if frames, done, err := r.fromJournal(ctx); err != nil || frames != nil {
				return frames, r.position, done, err
			}
		}
	}
}

// fromRing returns frames after the position, or the channel to wait on when
// there is nothing newer, or neither when the journal must be read.
func (r *Follower) fromRing() (frames []byte, done bool, wake <-chan struct{}) {
	t := r.topic
	t.mu.Lock()
	defer t.mu.Unlock()
	from := r.position + 1
	if t.next == 0 || from < t.first || from > t.next {
		return nil, false, nil
	}
	if from == t.next {
		if t.stale {
			return nil, false, nil
		}
		return nil, false, t.wake
	}
	if from == t.next-1 { // the common case: one new frame, shared as it is
		f := t.at(from)
		r.position = from
		return f.bytes, f.last, nil
	}
	r.buffer = buffers.Get().(*[]byte)
	b := (*r.buffer)[:0]
	for ; from < t.next && (len(b) == 0 || len(b)+len(t.at(from).bytes) <= maxWrite); from++ {
		f := t.at(from)
		b = append(b, f.bytes...)
		done = f.last
	}
	*r.buffer, r.position = b, from-1
	return b, done, nil
}

// fromJournal reads after the position. A reader that is behind the ring reads
// for itself; at the ring's end one reads on behalf of all, and the others find
// the frames in the ring.
func (r *Follower) fromJournal(ctx context.Context) ([]byte, bool, error) {
	if r.behind() {
		return r.readOwn(ctx)
	}
	t := r.topic
	t.refill.Lock()
	defer t.refill.Unlock()
	t.mu.Lock()
	gen, next, stale := t.gen, t.next, t.stale
	t.mu.Unlock()
	if next > r.position+1 || next == r.position+1 && !stale {
		return nil, false, nil // another reader was here first
	}
	if next != r.position+1 { // the ring does not know yet where the journal stands
		frames, done, err := r.readOwn(ctx)
		if frames == nil && err == nil {
			t.caughtUp(r.position, gen)
		}
		return frames, done, err
	}
	events, err := r.read(ctx)
	if err != nil {
		return nil, false, err
	}
	if len(events) == 0 {
		t.caughtUp(r.position, gen)
	} else {
		t.push(events)
	}
	return nil, false, nil
}

// behind reports whether the ring has moved past the reader's next event.
func (r *Follower) behind() bool {
	r.topic.mu.Lock()
	defer r.topic.mu.Unlock()
	return r.position+1 < r.topic.first
}

func (r *Follower) read(ctx context.Context) ([]stint.Event, error) {
	events, err := r.feed.store.Events(ctx, r.runID, r.position, readBatch)
	if err != nil {
		return nil, fmt.Errorf("follow %s: %w", r.runID, err)
	}
	return events, nil
}

func (r *Follower) readOwn(ctx context.Context) ([]byte, bool, error) {
	events, err := r.read(ctx)
	if err != nil || len(events) == 0 {
		return nil, false, err
	}
	frames, done := r.encodeAll(events)
	return frames, done, nil
}

func (r *Follower) encodeAll(events []stint.Event) (frames []byte, done bool) {
	r.buffer = buffers.Get().(*[]byte)
	b := (*r.buffer)[:0]
	for i := range events {
		e := &events[i]
		if len(b) > 0 && len(b)+len(e.Data) > maxOwn {
			break
		}
		b = AppendFrame(b, e)
		r.position, done = e.Seq, e.Type == stint.EventComplete
	}
	*r.buffer = b
	return b, done
}
