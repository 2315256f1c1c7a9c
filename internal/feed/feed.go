// Package feed delivers the journal of a run to its readers.
//
// Every reader runs the same loop: read the journal after its position, write,
// wait. So live, resumed, and replayed streams of a run have the same events in the
// same order. A reader has no state but its position, so a slow reader does not
// delay others.
//
// While a run has readers, a ring holds the most recent frames, so that thousands of
// readers share one encoding and do not query the database. A reader that falls
// behind the ring reads the journal again.
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

	mu     sync.Mutex // guards topics and topic.readers
	topics map[string]*topic
}

// New returns a feed that reads from s. If crossProcess is set, other processes
// commit to the same journals and the bus carries the wake-ups. Otherwise the bus
// is not used.
func New(s store.Journal, bus notify.Bus, crossProcess bool) *Feed {
	return &Feed{store: s, bus: bus, crossProcess: crossProcess, topics: map[string]*topic{}}
}

// Committed passes committed events to the readers of a run and wakes them, so that
// they need not query the database. The Seq of each event must be set.
func (f *Feed) Committed(runID string, events []stint.Event) {
	if t := f.topic(runID); t != nil {
		t.push(events, false)
	}
	if f.crossProcess {
		f.bus.Publish(notify.TopicRun(runID))
	}
}

// Wake wakes the readers of a run after its journal has grown without a call of
// Committed.
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

// Head returns the position of a run's last event and the status of the run. If the
// run does not exist, the position is 0.
func (f *Feed) Head(ctx context.Context, runID string) (int64, stint.Status, error) {
	head, status, err := f.store.Head(ctx, runID)
	if err != nil {
		return 0, "", fmt.Errorf("read head of %s: %w", runID, err)
	}
	return head, status, nil
}

// Events returns up to limit events after the position after, oldest first, and
// reports whether more follow. Their data have the event's time, as in a stream.
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
		for i := range batch {
			batch[i].Data = appendData(make([]byte, 0, len(batch[i].Data)+len(timeMember)+len(stint.TimeLayout)+2), &batch[i])
		}
		events, after = append(events, batch...), batch[len(batch)-1].Seq
	}
	return events[:limit], true, nil
}

// join adds a reader to the topic of a run and returns the topic. It creates the
// topic if necessary.
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
		t.share()
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
