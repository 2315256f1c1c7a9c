package bench

import (
	"context"
	"sync"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/store"
)

// unstored is a journal that also knows events which were handed to the feed
// without being stored, so that a reader who fell behind finds them.
type unstored struct {
	store.Journal

	mu     sync.RWMutex // guards events
	events map[string][]stint.Event
}

func newUnstored(j store.Journal) *unstored {
	return &unstored{Journal: j, events: map[string][]stint.Event{}}
}

func (u *unstored) keep(run string, e stint.Event) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.events[run] = append(u.events[run], e)
}

// Events reads what was kept, or what is stored before it.
func (u *unstored) Events(ctx context.Context, run string, after int64, limit int) ([]stint.Event, error) {
	u.mu.RLock()
	kept := u.events[run]
	u.mu.RUnlock()
	if len(kept) == 0 || after < kept[0].Seq-1 {
		return u.Journal.Events(ctx, run, after, limit)
	}
	from := min(after-kept[0].Seq+1, int64(len(kept)))
	return kept[from:min(from+int64(limit), int64(len(kept)))], nil
}
