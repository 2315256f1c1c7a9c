package feed

import (
	"sync"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/notify"
)

// A ring keeps some frames for a lone reader, more for a crowd, whose last one
// is served long after the first, and twice what is committed at once, so that
// readers need not go back to the journal.
const (
	minRing   = 64
	crowdRing = 256
	maxRing   = 512
)

// maxHeld bounds the bytes of a ring's frames, but for a single frame that is
// larger. Who falls behind by more has no use for a ring.
const maxHeld = 1 << 20

// pollInterval is the net below lost wake-ups between processes.
const pollInterval = time.Second

// topic is a watched run: a ring of the frames committed last. It starts
// without knowing where the journal stands; the first reader that has caught
// up tells it.
type topic struct {
	readers int // guarded by Feed.mu

	refill sync.Mutex // held by the one reader that reads the journal for all

	mu    sync.Mutex // guards what follows; taken after refill
	ring  []frame    // the frame of Seq n is at n % len(ring)
	held  int        // bytes of the frames in the ring
	first int64      // Seq of the oldest frame in the ring
	next  int64      // Seq that follows the newest frame; 0 while unknown
	stale bool       // the journal may hold more than the ring knows
	gen   uint64
	wake  chan struct{}

	stop func() // ends listening
}

func newTopic() *topic {
	return &topic{wake: make(chan struct{}), ring: make([]frame, minRing)}
}

// listen turns wake-ups of other processes into staleness.
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

// markStale says that the journal may have grown, and wakes the readers.
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

// push adds committed events that continue the ring. Others only make it
// stale: the journal is the truth.
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
			t.held += len(f.bytes)
			for t.first < t.next && (t.held > maxHeld || t.next-t.first == int64(len(t.ring))) {
				t.dropFirst()
			}
			*t.at(e.Seq) = f
			t.next++
		}
	}
}

// dropFirst forgets the oldest frame. t.mu is held.
func (t *topic) dropFirst() {
	f := t.at(t.first)
	t.held -= len(f.bytes)
	*f = frame{}
	t.first++
}

// at is the place of a frame. t.mu is held.
func (t *topic) at(seq int64) *frame { return &t.ring[seq%int64(len(t.ring))] }

// expectCrowd makes room for readers that are served one after the other.
func (t *topic) expectCrowd() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.grow(crowdRing)
}

// grow makes room for n frames, within limits. t.mu is held.
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

// caughtUp is told by a reader that found nothing after position in the
// journal, where gen is the topic's generation before it looked.
func (t *topic) caughtUp(position int64, gen uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.gen != gen {
		return // something happened meanwhile; look again
	}
	if t.next != position+1 {
		for t.first < t.next {
			t.dropFirst()
		}
		t.first, t.next = position+1, position+1
	}
	t.stale = false
}
