package feed

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/store"
)

// readBatch is the number of events that a reader reads from the journal at once.
const readBatch = 512

// Limits of the bytes that one Next returns, except for a single larger frame.
// The limit for the journal equals that of a read, because events that were read
// but not returned would be read again.
const (
	maxRingWrite    = 64 << 10
	maxJournalWrite = store.MaxReadBytes
)

var buffers = sync.Pool{New: func() any { b := make([]byte, 0, 4<<10); return &b }}

// Follower is a reader of a run. It is not safe for concurrent use.
type Follower struct {
	feed     *Feed
	runID    string
	topic    *topic
	position int64
	buffer   *[]byte // of the last returned frames; nil while waiting
	silence  time.Duration
	timer    *time.Timer
}

// Follow returns a reader that begins after the event with the given number. Its
// Next waits at most for silence. The caller must close it.
func (f *Feed) Follow(runID string, after int64, silence time.Duration) *Follower {
	return &Follower{feed: f, runID: runID, topic: f.join(runID), position: after, silence: silence, timer: time.NewTimer(silence)}
}

// Close ends the reader.
func (r *Follower) Close() {
	r.timer.Stop()
	r.release()
	r.feed.leave(r.runID, r.topic)
}

func (r *Follower) release() {
	if r.buffer != nil {
		if cap(*r.buffer) <= maxRingWrite {
			buffers.Put(r.buffer)
		}
		r.buffer = nil
	}
}

// Next waits for events after the reader's position. It returns the frames of the
// available ones, the number of the last, and whether it is the run's last event.
// The frames are valid until the next call. After a silence, Next returns no frames.
// If ctx ends first, Next returns its error.
func (r *Follower) Next(ctx context.Context) (frames []byte, last int64, done bool, err error) {
	r.release()
	r.timer.Reset(r.silence)
	for {
		frames, done, wake := r.fromRing()
		switch {
		case frames != nil:
			return frames, r.position, done, nil
		case wake != nil:
			select {
			case <-wake:
			case <-r.timer.C:
				return nil, r.position, false, nil
			case <-ctx.Done():
				return nil, r.position, false, ctx.Err()
			}
		default:
			frames, done, silent, err := r.fromJournal(ctx)
			if err != nil || frames != nil || silent {
				return frames, r.position, done, err
			}
		}
	}
}

// fromJournal calls readJournal for at most the time of a silence. silent reports
// whether it took longer.
func (r *Follower) fromJournal(ctx context.Context) (frames []byte, done, silent bool, err error) {
	limited, cancel := context.WithTimeout(ctx, r.silence)
	defer cancel()
	frames, done, err = r.readJournal(limited)
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		return nil, false, true, nil
	}
	return frames, done, false, err
}

// fromRing returns the frames after the position. If there are none, it returns the
// channel to wait on. If the journal must be read, it returns neither.
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
	if from == t.next-1 { // the common case: one new frame, returned without a copy
		f := t.at(from)
		r.position = from
		return f.bytes, f.last, nil
	}
	r.buffer = buffers.Get().(*[]byte)
	b := (*r.buffer)[:0]
	for ; from < t.next && (len(b) == 0 || len(b)+len(t.at(from).bytes) <= maxRingWrite); from++ {
		f := t.at(from)
		b = append(b, f.bytes...)
		done = f.last
	}
	*r.buffer, r.position = b, from-1
	return b, done, nil
}

// readJournal reads the journal after the position. A reader that is behind the ring
// reads for itself. Of the readers at the end of the ring, one reads for all and
// adds the frames to the ring.
func (r *Follower) readJournal(ctx context.Context) ([]byte, bool, error) {
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
		return nil, false, nil // another reader has filled the ring
	}
	if next != r.position+1 { // the head of the journal is unknown
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
		if len(b) > 0 && len(b)+len(e.Data) > maxJournalWrite {
			break
		}
		b = AppendFrame(b, e)
		r.position, done = e.Seq, e.Type == stint.EventComplete
	}
	*r.buffer = b
	return b, done
}
