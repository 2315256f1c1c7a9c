package inproc_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/stint-dev/stint/internal/notify"
	"github.com/stint-dev/stint/internal/notify/inproc"
	"github.com/stint-dev/stint/internal/notify/notifytest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestBus(t *testing.T) {
	notifytest.Run(t, func(*testing.T) (publisher, subscriber notify.Bus) {
		b := inproc.New()
		return b, b
	})
}

func TestPublishAllWakesEveryTopic(t *testing.T) {
	t.Parallel()
	b := inproc.New()
	one, cancelOne := b.Subscribe("one")
	two, cancelTwo := b.Subscribe("two")
	defer cancelOne()
	defer cancelTwo()
	b.PublishAll()
	if len(one) != 1 || len(two) != 1 {
		t.Errorf("wake-ups waiting: %d and %d, want one each", len(one), len(two))
	}
}

func BenchmarkPublish(b *testing.B) {
	bus := inproc.New()
	for range 100 {
		_, cancel := bus.Subscribe("busy")
		defer cancel()
	}
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			bus.Publish("busy")
		}
	})
}
