package log

import (
	"fmt"
	"sync"
	"time"
)

// Limits of a run's log. They apply to refusals and, separately, to all other entries.
// The limit of the total number is an argument of NewBuffer.
const (
	entryRate  = 200               // sustained number of entries per second
	entryBurst = 1000              // number of entries that may be written at once
	entryQueue = 2*entryBurst + 64 // number of entries of both kinds that wait for delivery
)

// Buffer delivers entries one at a time and in order. Write never blocks: entries
// beyond the limits are only counted, and an entry with the action Suppressed reports
// their number at most once a second. Refusals have limits of their own, so that many
// refusals do not hide allowed traffic. A Buffer is safe for concurrent use.
type Buffer struct {
	now     func() time.Time
	deliver func(Entry)
	queue   chan Entry
	wake    chan struct{} // receives a value when an entry was suppressed
	done    chan struct{}

	mu     sync.Mutex // guards the fields below, and prevents sends to queue after it is closed
	closed bool
	denied entryLimit
	other  entryLimit
}

// NewBuffer returns a buffer that accepts at most limit entries. A quarter of them, rounded
// up, is reserved for refusals, and the rest for all other entries. The buffer calls
// deliver from one goroutine until Close.
func NewBuffer(now func() time.Time, limit int, deliver func(Entry)) *Buffer {
	denied := (limit + 3) / 4
	b := &Buffer{
		now: now, deliver: deliver,
		queue: make(chan Entry, entryQueue), wake: make(chan struct{}, 1), done: make(chan struct{}),
		denied: entryLimit{action: Deny, limit: denied}, other: entryLimit{action: Allow, limit: limit - denied},
	}
	go b.run()
	return b
}

// Write adds an entry, or counts it as suppressed. After Close it does nothing.
func (b *Buffer) Write(e Entry) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return
	}
	q := &b.other
	if e.Action == Deny {
		q = &b.denied
	}
	if q.used < q.limit && q.take(b.now()) {
		select {
		case b.queue <- e:
			q.used++
			return
		default:
		}
	}
	q.suppressed++
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// Close delivers the remaining entries and returns after the last one. It is
// idempotent.
func (b *Buffer) Close() {
	b.mu.Lock()
	if !b.closed {
		b.closed = true
		close(b.queue)
	}
	b.mu.Unlock()
	<-b.done
}

func (b *Buffer) run() {
	defer close(b.done)
	var due <-chan time.Time
	for {
		select {
		case e, ok := <-b.queue:
			if !ok {
				b.reportSuppressed(true)
				return
			}
			b.deliver(e)
		case <-b.wake:
			if due == nil {
				due = time.After(time.Second)
			}
		case <-due:
			due = nil
			b.reportSuppressed(false)
		}
	}
}

// reportSuppressed delivers an entry with the number of suppressed entries of each
// kind. If the limit of a kind is exhausted, it delivers at most two more such entries: at
// its next call, and when the buffer is closed (end is true).
func (b *Buffer) reportSuppressed(end bool) {
	b.mu.Lock()
	var reports []Entry
	for _, q := range []*entryLimit{&b.other, &b.denied} {
		exhausted := q.used == q.limit
		if q.suppressed == 0 || exhausted && q.reported && !end {
			continue
		}
		e := Entry{Time: b.now(), Action: Suppressed, Rule: q.action, Count: q.suppressed}
		if exhausted && !q.reported {
			e.Error = fmt.Sprintf("the log has %d entries of this kind, which is the limit of a run; further entries are only counted", q.limit)
		}
		q.suppressed, q.reported = 0, exhausted
		reports = append(reports, e)
	}
	b.mu.Unlock()
	for _, e := range reports {
		b.deliver(e)
	}
}

// entryLimit limits one kind of entries. It limits their number and, by a leaky bucket,
// their rate.
type entryLimit struct {
	action     string // action of the suppressed entries
	limit      int
	used       int
	reported   bool  // an entry has reported that the limit is exhausted
	suppressed int64 // number of suppressed entries that were not reported yet
	level      float64
	last       time.Time
}

func (q *entryLimit) take(now time.Time) bool {
	if elapsed := now.Sub(q.last).Seconds(); elapsed > 0 {
		q.level = max(0, q.level-elapsed*entryRate)
		q.last = now
	}
	if q.level+1 > entryBurst {
		return false
	}
	q.level++
	return true
}
