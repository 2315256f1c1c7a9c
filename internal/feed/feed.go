// Package feed answers: how does a reader follow a run?
//
// There is one loop for everybody: read the journal after my position, write,
// wait. Live, resumed and replayed streams of a run are therefore the same
// events in the same order. A reader owns nothing but its position, so a slow
// one slows nobody.
//
// While a run is watched, a ring holds the frames that were committed last, so
// that thousands of readers share one encoding and none of them asks the
// database. A reader that falls behind the ring reads the journal again.
package feed

import (
	"context"
	"fmt"
	"sync"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/notify"
	"github.com/stint-dev/stint/internal/store"
)

// Feed serves the journals of runs to readers. It is safe for concurrent use.
type Feed struct {
	store        store.Journal
	bus          notify.Bus
	crossProcess bool

	mu     sync.Mutex // guards topics and their readers count
	topics map[string]*topic
}

// New reads from the store. With crossProcess, other processes commit to the
// same journals and wake-ups are carried by the bus; otherwise this process
// alone commits and the bus is not asked.
func New(s store.Journal, bus notify.Bus, crossProcess bool) *Feed {
	return &Feed{store: s, bus: bus, crossProcess: crossProcess, topics: map[string]*topic{}}
}

// Committed tells that events were committed; their Seq is set. It is a
// short cut that spares readers the database, and wakes them.
func (f *Feed) Committed(runID string, events []stint.Event) {
	if t := f.topic(runID); t != nil {
		t.push(events)
	}
	if f.crossProcess {
		f.bus.Publish(notify.TopicRun(runID))
	}
}

// Wake tells that a journal has grown by other means than Committed.
func (f *Feed) Wake(runID string) {
	if t := f.topic(runID); t != nil {
		t.markStale()
	}
	if f.crossProcess {
		f.bus.Publish(notify.TopicRun(runID))
	}
}

func (f *Feed) topic(runID string) *topic {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.topics[runID]
}

// Head is the number of a run's last event, and its status.
func (f *Feed) Head(ctx context.Context, runID string) (int64, stint.Status, error) {
	head, status, err := f.store.Head(ctx, runID)
	if err != nil {
		return 0, "", fmt.Errorf("read head of %s: %w", runID, err)
	}
	return head, status, nil
}

// Events reads up to limit events after the given one; more tells whether the
// journal goes on.
func (f *Feed) Events(ctx context.Context, runID string, after int64, limit int) (events []stint.Event, more bool, err error) {
	events = []stint.Event{}
	for len(events) <= limit {
		batch, err := f.store.Events(ctx, runID, after, limit+1-len(events))
		if err != nil {
			return nil, false, fmt.Errorf("read events of %s: %w", runID, err)
		}
		if len(batch) == 0 {
			return events, false, nil
		}
		events, after = append(events, batch...), batch[len(batch)-1].Seq
	}
	return events[:limit], true, nil
}

// join finds or makes the topic of a run and counts one more reader.
func (f *Feed) join(runID string) *topic {
	f.mu.Lock()
	defer f.mu.Unlock()
	t := f.topics[runID]
	if t == nil {
		t = newTopic()
		f.topics[runID] = t
		if f.crossProcess {
			t.listen(f.bus, runID)
		}
	}
	t.readers++
	if t.readers == 2 {
		t.expectCrowd()
	}
	return t
}

func (f *Feed) leave(runID string, t *topic) {
	f.mu.Lock()
	t.readers--
	last := t.readers == 0
	if last {
		delete(f.topics, runID)
	}
	f.mu.Unlock()
	if last {
		t.close()
	}
}
