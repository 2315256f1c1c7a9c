package feed

import (
	"sync"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/notify"
)

// Sizes of a ring in frames. With several readers the ring is larger, because the
// last of them is served long after the first. It also grows to twice the size of a
// commit, so that readers need not read the journal.
const (
	minRing    = 64
	sharedRing = 256 // for two or more readers
	maxRing    = 512
)

// maxRingBytes limits the bytes of a ring's frames, except for a single larger
// frame. A reader further behind reads the journal.
const maxRingBytes = 1 << 20

// pollInterval is the interval of polling, in case a wake-up between processes is
// lost.
const pollInterval = time.Second

// topic is a run with readers: a ring of its most recent frames. The head of the
// journal is unknown until the first reader has caught up.
type topic struct {
	readers int // guarded by Feed.mu

	refill sync.Mutex // held by the reader that reads the journal for all readers

	mu    sync.Mutex // guards the fields below; locked after refill
	ring  []frame    // the frame of Seq n is at n % len(ring)
	size  int        // bytes of the frames in the ring
	first int64      // Seq of the oldest frame in the ring
	next  int64      // Seq after the newest frame; 0 if unknown
	stale bool       // the journal may have newer events than the ring
	gen   uint64     // incremented by broadcast
	wake  chan struct{}

	stop func() // ends listen
}

func newTopic() *topic {
	return &topic{wake: make(chan struct{}), ring: make([]frame, minRing)}
}

// listen marks the topic stale after each wake-up by another process, and
// periodically.
func (t *topic) listen(bus notify.Bus, runID string) {
	wake, cancel := bus.Subscribe(notify.TopicRun(runID))
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(pollInterval)
		defer tick.Stop()
		for {
			select {
			case <-wake:
			case <-tick.C:
			case <-quit:
				return
			}
			t.markStale()
		}
	}()
	t.stop = func() { cancel(); close(quit); <-done }
}

func (t *topic) close() {
	if t.stop != nil {
		t.stop()
	}
}

// markStale records that the journal may have grown and wakes the readers.
func (t *topic) markStale() {
	t.mu.Lock()
	t.stale = true
	t.broadcast()
	t.mu.Unlock()
}

// broadcast wakes every waiting reader. t.mu is held.
func (t *topic) broadcast() {
	t.gen++
	close(t.wake)
	t.wake = make(chan struct{})
}

// push adds committed events that follow the ring's last frame. After a gap it marks
// the topic stale instead, so that readers read the journal.
func (t *topic) push(events []stint.Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.add(events)
	t.broadcast()
}

func (t *topic) add(events []stint.Event) {
	t.grow(2 * len(events))
	for i := range events {
		switch e := &events[i]; {
		case t.next == 0 || e.Seq > t.next:
			t.stale = true
			return
		case e.Seq == t.next:
			f := encode(e)
			t.size += len(f.bytes)
			for t.first < t.next && (t.size > maxRingBytes || t.next-t.first == int64(len(t.ring))) {
				t.dropFirst()
			}
			*t.at(e.Seq) = f
			t.next++
		}
	}
}

// dropFirst removes the oldest frame. t.mu is held.
func (t *topic) dropFirst() {
	f := t.at(t.first)
	t.size -= len(f.bytes)
	*f = frame{}
	t.first++
}

// at returns the slot of a frame. t.mu is held.
func (t *topic) at(seq int64) *frame { return &t.ring[seq%int64(len(t.ring))] }

// share grows the ring for several readers.
func (t *topic) share() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.grow(sharedRing)
}

// grow grows the ring to at least n frames, up to maxRing. t.mu is held.
func (t *topic) grow(n int) {
	size := len(t.ring)
	for size < n && size < maxRing {
		size *= 2
	}
	if size == len(t.ring) {
		return
	}
	old := t.ring
	t.ring = make([]frame, size)
	for seq := t.first; seq < t.next; seq++ {
		*t.at(seq) = old[seq%int64(len(old))]
	}
}

// caughtUp is called by a reader that found no event after position in the journal.
// gen is the topic's generation before the reader read it.
func (t *topic) caughtUp(position int64, gen uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.gen != gen {
		return // the topic has changed meanwhile; the reader reads again
	}
	if t.next != position+1 {
		for t.first < t.next {
			t.dropFirst()
		}
		t.first, t.next = position+1, position+1
	}
	t.stale = false
}
