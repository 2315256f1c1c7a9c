// Package notifytest answers: what must every notify.Bus do?
//
// It is the suite that the adapters pass.
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

// patience is how long a wake-up may take before a test gives it up for lost.
const patience = time.Minute

// NewBus makes a bus to publish on and one to subscribe on which hears it:
// the same one within a process, two that stand for two processes otherwise.
// The suite closes both.
type NewBus func(t *testing.T) (publisher, subscriber notify.Bus)

// Run holds the buses that newBus makes to the contract of notify.Bus. It
// counts goroutines, so it is not for parallel tests.
func Run(t *testing.T, newBus NewBus) {
	t.Run("CloseLeavesNothing", func(t *testing.T) { closeLeavesNothing(t, newBus) })
	for name, test := range map[string]func(*testing.T, *pair){
		"WakesAfterSubscribe":       wakesAfterSubscribe,
		"WakesEverySubscriber":      wakesEverySubscriber,
		"WakesItsOwnProcess":        wakesItsOwnProcess,
		"Coalesces":                 coalesces,
		"LastPublishIsHeard":        lastPublishIsHeard,
		"SlowSubscriber":            slowSubscriber,
		"CancelIsIdempotent":        cancelIsIdempotent,
		"TopicsAreApart":            topicsAreApart,
		"ThousandsOfTopics":         thousandsOfTopics,
		"OddTopics":                 oddTopics,
		"ClosedBusIsHarmless":       closedBusIsHarmless,
		"CloseWhileOthersUseTheBus": closeWhileOthersUse,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, newPair(t, newBus))
		})
	}
}

// pair is the buses of one test.
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

// flush publishes on a topic of its own and waits for it, after which
// everything that was published before it has arrived as well.
func (p *pair) flush(t *testing.T) {
	t.Helper()
	for i := range 2 { // the first may travel in one parcel with what is to arrive before it
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
	case <-time.After(patience):
		t.Fatalf("no wake-up on %.40q within %v", topic, patience)
	}
}

// waiting counts the wake-ups that lie ready.
func waiting(wake <-chan struct{}) int {
	for n := 0; ; n++ {
		select {
		case <-wake:
		default:
			return n
		}
	}
}

func wakesAfterSubscribe(t *testing.T, p *pair) {
	p.publisher.Publish("a") // heard by nobody
	p.flush(t)
	wake := p.subscribe(t, "a")
	if n := waiting(wake); n != 0 {
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

func wakesItsOwnProcess(t *testing.T, p *pair) {
	wake, cancel := p.publisher.Subscribe("a")
	defer cancel()
	p.publisher.Publish("a")
	if n := waiting(wake); n != 1 {
		t.Errorf("%d wake-ups right after Publish in the same process, want 1", n)
	}
}

func coalesces(t *testing.T, p *pair) {
	wake := p.subscribe(t, "a")
	for range 1000 {
		p.publisher.Publish("a")
	}
	p.flush(t)
	if n := waiting(wake); n != 1 {
		t.Errorf("%d wake-ups lie ready after 1000 publications, want 1", n)
	}
}

// lastPublishIsHeard plays the protocol of a waiter: change, publish; wake,
// read. A lost last wake-up leaves the reader behind the writer for ever.
func lastPublishIsHeard(t *testing.T, p *pair) {
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
	if waiting(wake) == 0 {
		t.Error("nothing follows the last Publish")
	}
}

func slowSubscriber(t *testing.T, p *pair) {
	slow, quick := p.subscribe(t, "a"), p.subscribe(t, "a")
	for range 200 {
		p.publisher.Publish("a")
		await(t, quick, "a")
	}
	p.flush(t)
	if n := waiting(slow); n != 1 {
		t.Errorf("%d wake-ups wait for the slow subscriber, want 1", n)
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
		t.Errorf("a cancelled subscription receives (open: %v)", open)
	default:
	}
}

func topicsAreApart(t *testing.T, p *pair) {
	a, ab, b := p.subscribe(t, "a"), p.subscribe(t, "ab"), p.subscribe(t, "b")
	p.publisher.Publish("ab")
	await(t, ab, "ab")
	p.flush(t)
	if n := waiting(a) + waiting(b) + waiting(ab); n != 0 {
		t.Errorf("one publication on ab woke %d others or twice", n)
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

func closedBusIsHarmless(t *testing.T, p *pair) {
	before, cancelBefore := p.subscriber.Subscribe("a")
	p.close(t)
	after, cancelAfter := p.subscriber.Subscribe("a")
	p.subscriber.Publish("a")
	p.publisher.Publish("a")
	for _, wake := range []<-chan struct{}{before, after} {
		select {
		case _, open := <-wake:
			t.Errorf("a closed bus sends (open: %v)", open)
		default:
		}
	}
	cancelBefore()
	cancelAfter()
	p.close(t)
}

func closeWhileOthersUse(t *testing.T, p *pair) {
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

func closeLeavesNothing(t *testing.T, newBus NewBus) {
	warm := newPair(t, newBus) // starts what the buses share and leave alone: a server under test
	warm.close(t)
	before := goleak.IgnoreCurrent()
	p := newPair(t, newBus)
	wake := p.subscribe(t, "a")
	p.publisher.Publish("a")
	await(t, wake, "a")
	p.close(t)
	goleak.VerifyNone(t, before)
}
