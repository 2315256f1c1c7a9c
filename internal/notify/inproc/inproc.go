// Package inproc answers: how do the parts of one process wake each other?
//
// It is the notify.Bus of a server that is alone, and the local half of the
// buses that also reach other processes.
package inproc

import "sync"

// Bus wakes subscribers of this process. It starts no goroutine.
type Bus struct {
	mu     sync.RWMutex // guards the rest; never held while anything blocks
	topics map[string]map[*subscription]struct{}
	closed bool
}

// subscription holds the wake-up that its owner has not received yet: one at
// most, so that sending never blocks and repeats are lost.
type subscription struct{ wake chan struct{} }

func (s *subscription) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// New gives a bus without subscribers.
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

// PublishAll wakes every subscriber: for a bus that knows that wake-ups were
// lost, but not which.
func (b *Bus) PublishAll() {
	b.mu.RLock()
	defer b.mu.RUnlock()
	for _, subscriptions := range b.topics {
		for s := range subscriptions {
			s.signal()
		}
	}
}

// Subscribe registers a waiter; after Close it gives a channel that stays
// silent.
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

// Close ends all subscriptions. Another Close does nothing.
func (b *Bus) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	clear(b.topics)
	return nil
}
