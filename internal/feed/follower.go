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

// Maximum numbers of bytes that one call of Next returns from the ring and, apart from
// the field names of the last frame, from the journal. A single frame may be larger.
// maxJournalWrite equals the limit of one read of the journal: with a smaller value,
// events would be read but not returned, and would have to be read again.
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
	prior    moment  // of the last event that the reader read from the journal for itself
	buffer   *[]byte // holds the last returned frames; nil if they were not copied
	silence  time.Duration
	timer    *time.Timer
}

// Follow returns a reader that begins after the position after. A call of its Next
// waits at most for the duration silence. The caller must close the reader.
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

// Next waits for events after the reader's position. It returns the frames of
// available events, the new position, and whether the run's last event is among
// them. The frames are valid until the next call. If no event arrives within the
// duration given to Follow, Next returns no frames and no error. If ctx ends first,
// Next returns the error of ctx.
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

// fromJournal calls readJournal with r.silence as its time limit. silent reports
// whether this limit was exceeded.
func (r *Follower) fromJournal(ctx context.Context) (frames []byte, done, silent bool, err error) {
	limited, cancel := context.WithTimeout(ctx, r.silence)
	defer cancel()
	frames, done, err = r.readJournal(limited)
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		return nil, false, true, nil
	}
	return frames, done, false, err
}

// fromRing returns the frames in the ring after the reader's position and advances
// the position. If the ring is up to date and has no newer frame, fromRing returns
// a channel that is closed when the ring changes. If the journal must be read,
// frames and wake are nil.
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

// readJournal reads the journal after the reader's position. A reader that is behind
// the ring reads for itself. Of the readers at the end of the ring, one reads for
// all and adds the frames to the ring; then readJournal returns no frames, and the
// caller takes them from the ring.
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
		return nil, false, nil // another reader has updated the ring
	}
	if next != r.position+1 { // the ring's end is unknown or before the reader's position
		frames, done, err := r.readOwn(ctx)
		if frames == nil && err == nil {
			t.caughtUp(r.position, r.prior, gen)
		}
		return frames, done, err
	}
	events, err := r.read(ctx)
	if err != nil {
		return nil, false, err
	}
	if len(events) == 0 {
		t.caughtUp(r.position, r.prior, gen)
	} else {
		t.push(events, true)
	}
	return nil, false, nil
}

// behind reports whether the reader's next event is older than the ring.
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
		r.position, r.prior, done = e.Seq, moment{e.At, true}, e.Type == stint.EventComplete
	}
	*r.buffer = b
	return b, done
}
