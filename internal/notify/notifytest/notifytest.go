// Package notifytest implements the suite that every notify.Bus passes.
package notifytest

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/stint-dev/stint/internal/notify"
)

// waitLimit is the time after which a wake-up counts as lost.
const waitLimit = time.Minute

// NewBus returns a bus to publish on and a connected bus to subscribe on. They are
// the same bus, or two buses that represent two processes. The suite closes both.
type NewBus func(t *testing.T) (publisher, subscriber notify.Bus)

// Run checks the buses that newBus returns against the contract of notify.Bus. It
// counts goroutines, so the calling test must not be parallel.
func Run(t *testing.T, newBus NewBus) {
	t.Run("CloseEndsGoroutines", func(t *testing.T) { closeEndsGoroutines(t, newBus) })
	for name, test := range map[string]func(*testing.T, *pair){
		"WakesAfterSubscribe":   wakesAfterSubscribe,
		"WakesEverySubscriber":  wakesEverySubscriber,
		"WakesOwnProcess":       wakesOwnProcess,
		"Coalesces":             coalesces,
		"LastPublishIsReceived": lastPublishIsReceived,
		"SlowSubscriber":        slowSubscriber,
		"CancelIsIdempotent":    cancelIsIdempotent,
		"TopicsAreSeparate":     topicsAreSeparate,
		"ThousandsOfTopics":     thousandsOfTopics,
		"OddTopics":             oddTopics,
		"UseAfterClose":         useAfterClose,
		"CloseDuringUse":        closeDuringUse,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, newPair(t, newBus))
		})
	}
}

// pair holds the buses of one test.
type pair struct{ publisher, subscriber notify.Bus }

func newPair(t *testing.T, newBus NewBus) *pair {
	t.Helper()
	p := &pair{}
	p.publisher, p.subscriber = newBus(t)
	t.Cleanup(func() { p.close(t) })
	return p
}

func (p *pair) close(t *testing.T) {
	t.Helper()
	for _, b := range []notify.Bus{p.publisher, p.subscriber} {
		if err := b.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	}
}

func (p *pair) subscribe(t *testing.T, topic string) <-chan struct{} {
	t.Helper()
	wake, cancel := p.subscriber.Subscribe(topic)
	t.Cleanup(cancel)
	return wake
}

// flush publishes on new topics and waits for their wake-ups. When it returns, all
// earlier wake-ups have arrived.
func (p *pair) flush(t *testing.T) {
	t.Helper()
	for i := range 2 { // the first topic may be sent together with earlier topics, in any order
		topic := fmt.Sprintf("flush %d %s", i, t.Name())
		wake := p.subscribe(t, topic)
		p.publisher.Publish(topic)
		await(t, wake, topic)
	}
}

func await(t *testing.T, wake <-chan struct{}, topic string) {
	t.Helper()
	select {
	case <-wake:
	case <-time.After(waitLimit):
		t.Fatalf("no wake-up on %.40q within %v", topic, waitLimit)
	}
}

// pending receives all pending wake-ups and returns their number.
func pending(wake <-chan struct{}) int {
	for n := 0; ; n++ {
		select {
		case <-wake:
		default:
			return n
		}
	}
}

func wakesAfterSubscribe(t *testing.T, p *pair) {
	p.publisher.Publish("a") // no subscriber yet
	p.flush(t)
	wake := p.subscribe(t, "a")
	if n := pending(wake); n != 0 {
		t.Errorf("%d wake-ups from before the subscription", n)
	}
	for range 3 {
		p.publisher.Publish("a")
		await(t, wake, "a")
	}
}

func wakesEverySubscriber(t *testing.T, p *pair) {
	var wakes []<-chan struct{}
	for range 50 {
		wakes = append(wakes, p.subscribe(t, "a"))
	}
	p.publisher.Publish("a")
	for _, wake := range wakes {
		await(t, wake, "a")
	}
}

func wakesOwnProcess(t *testing.T, p *pair) {
	wake, cancel := p.publisher.Subscribe("a")
	defer cancel()
	p.publisher.Publish("a")
	if n := pending(wake); n != 1 {
		t.Errorf("%d wake-ups right after Publish in the same process, want 1", n)
	}
}

func coalesces(t *testing.T, p *pair) {
	wake := p.subscribe(t, "a")
	for range 1000 {
		p.publisher.Publish("a")
	}
	p.flush(t)
	if n := pending(wake); n != 1 {
		t.Errorf("%d wake-ups are pending after 1000 publications, want 1", n)
	}
}

// lastPublishIsReceived follows the protocol of the product: a writer changes the
// state and then publishes; a waiter is woken and then reads the state. If the last
// wake-up is lost, the waiter never sees the last change.
func lastPublishIsReceived(t *testing.T, p *pair) {
	const writers, changes = 4, 500
	wake := p.subscribe(t, "a")
	var state atomic.Int64
	var writing sync.WaitGroup
	for range writers {
		writing.Go(func() {
			for range changes {
				state.Add(1)
				p.publisher.Publish("a")
			}
		})
	}
	for state.Load() < writers*changes {
		await(t, wake, "a")
	}
	writing.Wait()
	p.publisher.Publish("a")
	p.flush(t)
	if pending(wake) == 0 {
		t.Error("no wake-up after the last Publish")
	}
}

func slowSubscriber(t *testing.T, p *pair) {
	slow, quick := p.subscribe(t, "a"), p.subscribe(t, "a")
	for range 200 {
		p.publisher.Publish("a")
		await(t, quick, "a")
	}
	p.flush(t)
	if n := pending(slow); n != 1 {
		t.Errorf("%d wake-ups are pending for the slow subscriber, want 1", n)
	}
}

func cancelIsIdempotent(t *testing.T, p *pair) {
	cancelled, cancel := p.subscriber.Subscribe("a")
	other := p.subscribe(t, "a")
	var cancelling sync.WaitGroup
	for range 8 {
		cancelling.Go(cancel)
	}
	cancelling.Wait()
	cancel()
	p.publisher.Publish("a")
	await(t, other, "a")
	p.flush(t)
	select {
	case _, open := <-cancelled:
		t.Errorf("a cancelled subscription received (open: %v)", open)
	default:
	}
}

func topicsAreSeparate(t *testing.T, p *pair) {
	a, ab, b := p.subscribe(t, "a"), p.subscribe(t, "ab"), p.subscribe(t, "b")
	p.publisher.Publish("ab")
	await(t, ab, "ab")
	p.flush(t)
	if n := pending(a) + pending(b) + pending(ab); n != 0 {
		t.Errorf("one publication on ab caused %d further wake-ups", n)
	}
}

func thousandsOfTopics(t *testing.T, p *pair) {
	wakes := map[string]<-chan struct{}{}
	for i := range 5000 {
		topic := notify.TopicRun(fmt.Sprintf("run_%026d", i))
		wakes[topic] = p.subscribe(t, topic)
	}
	for topic := range wakes {
		p.publisher.Publish(topic)
	}
	for topic, wake := range wakes {
		await(t, wake, topic)
	}
}

func oddTopics(t *testing.T, p *pair) {
	for _, topic := range []string{
		"", " ", "a b", "a\nb", "a\x00b", "\xff\xfe", "it's", `"quoted\"`, "%20", "*", "ünï", strings.Repeat("long", 5000),
	} {
		wake := p.subscribe(t, topic)
		p.publisher.Publish(topic)
		await(t, wake, topic)
	}
}

func useAfterClose(t *testing.T, p *pair) {
	before, cancelBefore := p.subscriber.Subscribe("a")
	p.close(t)
	after, cancelAfter := p.subscriber.Subscribe("a")
	p.subscriber.Publish("a")
	p.publisher.Publish("a")
	for _, wake := range []<-chan struct{}{before, after} {
		select {
		case _, open := <-wake:
			t.Errorf("a closed bus sent a wake-up (open: %v)", open)
		default:
		}
	}
	cancelBefore()
	cancelAfter()
	p.close(t)
}

func closeDuringUse(t *testing.T, p *pair) {
	var using sync.WaitGroup
	begun := make(chan struct{}, 8)
	for i := range cap(begun) {
		using.Go(func() {
			for n := range 1000 {
				topic := fmt.Sprint("topic ", (i+n)%10)
				_, cancel := p.subscriber.Subscribe(topic)
				p.publisher.Publish(topic)
				cancel()
				if n == 0 {
					begun <- struct{}{}
				}
			}
		})
	}
	for range cap(begun) {
		<-begun
	}
	p.close(t)
	using.Wait()
}

func closeEndsGoroutines(t *testing.T, newBus NewBus) {
	warm := newPair(t, newBus) // starts shared resources, such as the database server
	warm.close(t)
	before := goleak.IgnoreCurrent()
	p := newPair(t, newBus)
	wake := p.subscribe(t, "a")
	p.publisher.Publish("a")
	await(t, wake, "a")
	p.close(t)
	goleak.VerifyNone(t, before)
}
