package feed

import (
	"sync"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/notify"
)

// Sizes of a ring in frames. With several readers the ring is larger, because the
// last reader may be served long after the first. The ring also grows to twice the
// number of events that are committed at once, so that readers need not read the
// journal.
const (
	minRing    = 64
	sharedRing = 256 // for two or more readers
	maxRing    = 512
)

// maxRingBytes limits the bytes of a ring's frames, except for a single larger
// frame. A reader that needs older frames reads the journal.
const maxRingBytes = 1 << 20

// pollInterval is the interval at which the journal is checked for events of other
// processes, in case a wake-up is lost.
const pollInterval = time.Second

// topic holds the most recent frames of a run that has readers, in a ring. The ring
// stays empty until the first reader has read to the end of the journal.
type topic struct {
	readers int // guarded by Feed.mu

	refill sync.Mutex // held by the reader that reads the journal for all readers

	mu    sync.Mutex    // guards the fields up to wake; if both are held, refill is locked first
	ring  []frame       // the frame of Seq n is at n % len(ring)
	size  int           // bytes of the frames in the ring
	first int64         // Seq of the oldest frame in the ring
	next  int64         // Seq after the newest frame; 0 if unknown
	prior moment        // of the event before next
	stale bool          // the journal may have newer events than the ring
	gen   uint64        // incremented by broadcast
	wake  chan struct{} // closed and replaced by broadcast

	stop func() // ends the goroutine of listen; nil if listen was not called
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

// moment is the time of an event.
type moment struct {
	stint.Time
	known bool
}

// push adds committed events to the ring and wakes the readers. It ignores events
// that are not newer than the ring. If events are missing in between, or the ring's end
// is unknown, push marks the topic stale, so that readers read the journal.
//
// The times in a journal never decrease: an event with a time before that of the
// preceding event is stored with the latter. So push replaces such times, too, and an
// event whose predecessor has an unknown time is left to the readers of the journal.
// stored is set if the events were read from the journal.
func (t *topic) push(events []stint.Event, stored bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.add(events, stored)
	t.broadcast()
}

func (t *topic) add(events []stint.Event, stored bool) {
	t.grow(2 * len(events))
	for i := range events {
		switch e := events[i]; {
		case t.next == 0 || e.Seq > t.next || e.Seq == t.next && !stored && !t.prior.known:
			t.stale = true
			return
		case e.Seq == t.next:
			if t.prior.known && e.At.Before(t.prior.Time.Time) {
				e.At = t.prior.Time
			}
			t.prior = moment{e.At, true}
			f := encode(&e)
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

// at returns the slot of the ring for the event with the number seq. t.mu is held.
func (t *topic) at(seq int64) *frame { return &t.ring[seq%int64(len(t.ring))] }

// share grows the ring to sharedRing frames.
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
// prior is the time of the event at position, and gen is the value of t.gen before the
// reader read the journal.
func (t *topic) caughtUp(position int64, prior moment, gen uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.gen != gen {
		return // the topic has changed meanwhile; the reader reads again
	}
	if t.next != position+1 {
		for t.first < t.next {
			t.dropFirst()
		}
		t.first, t.next, t.prior = position+1, position+1, prior
	}
	t.stale = false
}
