package pgnotify

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	gatherTime   = 2 * time.Millisecond // least time between two notifications
	sendLimit    = 10 * time.Second     // for one notification
	goodbyeLimit = time.Second          // for the last one, sent by Close
	outboxLimit  = 10_000               // topics kept apart; beyond it everybody is woken
)

// notification sends many payloads at the price of one commit.
const notification = "select pg_notify('" + channel + "', p) from unnest($1::text[]) p"

// outbox gathers the topics that other processes have to hear of. It is
// bounded: a topic is kept once, and too many become "everything".
type outbox struct {
	filled chan struct{} // holds a value when there may be something to send

	mu     sync.Mutex // guards the rest
	topics map[string]struct{}
	all    bool // too many topics to keep apart
	closed bool
}

func newOutbox() *outbox {
	return &outbox{filled: make(chan struct{}, 1), topics: map[string]struct{}{}}
}

func (o *outbox) add(topics ...string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return
	}
	o.put(topics)
	select {
	case o.filled <- struct{}{}:
	default:
	}
}

// put keeps topics; the caller holds mu.
func (o *outbox) put(topics []string) {
	for _, topic := range topics {
		if len(o.topics) >= outboxLimit {
			o.all = true
			clear(o.topics)
		}
		if !o.all {
			o.topics[topic] = struct{}{}
		}
	}
}

func (o *outbox) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
}

// parcel is what goes out in one statement.
type parcel struct {
	topics []string
	all    bool
}

// take empties the outbox.
func (o *outbox) take() parcel {
	o.mu.Lock()
	defer o.mu.Unlock()
	p := parcel{topics: slices.Collect(maps.Keys(o.topics)), all: o.all}
	clear(o.topics)
	o.all = false
	return p
}

// giveBack returns what could not be sent.
func (o *outbox) giveBack(p parcel) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.put(p.topics)
	if p.all {
		o.all = true
		clear(o.topics)
	}
}

// payloads spells out the parcel.
func (p parcel) payloads(sender string) []string {
	switch {
	case p.all:
		return []string{sender + " " + everything}
	case len(p.topics) == 0:
		return nil
	}
	return encode(sender, p.topics)
}

// talk tells other processes what is published here until ctx ends.
func (b *Bus) talk(ctx context.Context, conn *pgx.Conn) {
	t := &talker{bus: b, conn: conn}
	defer t.sayGoodbye()
	for {
		select {
		case <-b.outbox.filled:
		case <-ctx.Done():
			return
		}
		if !b.again(ctx, func() error { return t.send(ctx) }) || !rest(ctx, gatherTime) {
			return
		}
	}
}

// talker owns the connection that notifications leave by.
type talker struct {
	bus  *Bus
	conn *pgx.Conn // nil when it has to be made again
}

// send notifies of what the outbox holds. On an error it is back there.
func (t *talker) send(ctx context.Context) (err error) {
	parcel := t.bus.outbox.take()
	payloads := parcel.payloads(t.bus.sender)
	if len(payloads) == 0 {
		return nil
	}
	defer func() {
		if err != nil {
			t.bus.outbox.giveBack(parcel)
		}
	}()
	if t.conn == nil {
		if t.conn, err = t.bus.connect(ctx); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, sendLimit)
	defer cancel()
	if _, err := t.conn.Exec(ctx, notification, payloads); err != nil {
		hangUp(t.conn)
		t.conn = nil
		return fmt.Errorf("notifying: %w", err)
	}
	return nil
}

// sayGoodbye sends what was published just before Close, or could not be sent
// so far. What the database does not take now is lost, as any wake-up may be.
func (t *talker) sayGoodbye() {
	ctx, cancel := context.WithTimeout(context.Background(), goodbyeLimit)
	defer cancel()
	if err := t.send(ctx); err != nil {
		t.bus.logger.DebugContext(ctx, "the last notifications are lost", "error", err)
	}
	if t.conn != nil {
		hangUp(t.conn)
	}
}
