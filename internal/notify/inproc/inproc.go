// Package inproc implements notify.Bus within one process.
//
// A single server uses it directly. A bus that reaches other processes uses it for
// its local subscribers.
package inproc

import "sync"

// Bus is a notify.Bus for the subscribers of this process. It starts no goroutines.
type Bus struct {
	mu     sync.RWMutex // guards the fields below; never held while blocking
	topics map[string]map[*subscription]struct{}
	closed bool
}

// subscription holds at most one pending wake-up, so that signal never blocks and
// repeats are dropped.
type subscription struct{ wake chan struct{} }

func (s *subscription) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// New returns a bus without subscribers.
func New() *Bus {
	return &Bus{topics: map[string]map[*subscription]struct{}{}}
}

// Publish wakes the subscribers of topic before it returns.
func (b *Bus) Publish(topic string) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	for s := range b.topics[topic] {
		s.signal()
	}
}

// PublishAll wakes all subscribers of all topics. It is used after wake-ups of
// unknown topics were lost.
func (b *Bus) PublishAll() {
	b.mu.RLock()
	defer b.mu.RUnlock()
	for _, subscriptions := range b.topics {
		for s := range subscriptions {
			s.signal()
		}
	}
}

// Subscribe returns a channel that receives after each Publish of topic, and a
// function that ends the subscription. After Close, the channel never receives.
func (b *Bus) Subscribe(topic string) (wake <-chan struct{}, cancel func()) {
	s := &subscription{wake: make(chan struct{}, 1)}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return s.wake, func() {}
	}
	if b.topics[topic] == nil {
		b.topics[topic] = map[*subscription]struct{}{}
	}
	b.topics[topic][s] = struct{}{}
	return s.wake, func() { b.cancel(topic, s) }
}

func (b *Bus) cancel(topic string, s *subscription) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.topics[topic], s)
	if len(b.topics[topic]) == 0 {
		delete(b.topics, topic)
	}
}

// Close ends all subscriptions. It is idempotent.
func (b *Bus) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	clear(b.topics)
	return nil
}
