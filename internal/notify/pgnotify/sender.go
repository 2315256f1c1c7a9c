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
	sendInterval = 2 * time.Millisecond // minimum time between two notifications
	sendLimit    = 10 * time.Second     // timeout of one notification
	flushLimit   = time.Second          // timeout of the last one, sent by Close
	outboxLimit  = 10_000               // topics; if there are more, all subscribers are woken
)

// notification sends many payloads with one commit.
const notification = "select pg_notify('" + channel + "', p) from unnest($1::text[]) p"

// outbox collects the topics to be sent to other processes. Each topic is stored
// once. If there are too many, they are replaced by "everything".
type outbox struct {
	filled chan struct{} // has a value if there may be topics to send

	mu     sync.Mutex // guards the fields below
	topics map[string]struct{}
	all    bool // too many topics: wake all subscribers
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

// put adds topics. o.mu is held.
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

// parcel is the content of one notification.
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

// giveBack adds a parcel that could not be sent.
func (o *outbox) giveBack(p parcel) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.put(p.topics)
	if p.all {
		o.all = true
		clear(o.topics)
	}
}

// payloads encodes the parcel.
func (p parcel) payloads(sender string) []string {
	switch {
	case p.all:
		return []string{sender + " " + everything}
	case len(p.topics) == 0:
		return nil
	}
	return encode(sender, p.topics)
}

// sendLoop sends published topics to other processes until ctx ends.
func (b *Bus) sendLoop(ctx context.Context, conn *pgx.Conn) {
	s := &sender{bus: b, conn: conn}
	defer s.flush()
	for {
		select {
		case <-b.outbox.filled:
		case <-ctx.Done():
			return
		}
		if !b.retry(ctx, func() error { return s.send(ctx) }) || !sleep(ctx, sendInterval) {
			return
		}
	}
}

// sender owns the connection that sends notifications.
type sender struct {
	bus  *Bus
	conn *pgx.Conn // nil if it must be re-established
}

// send sends the content of the outbox. If it fails, the content is put back.
func (s *sender) send(ctx context.Context) (err error) {
	parcel := s.bus.outbox.take()
	payloads := parcel.payloads(s.bus.id)
	if len(payloads) == 0 {
		return nil
	}
	defer func() {
		if err != nil {
			s.bus.outbox.giveBack(parcel)
		}
	}()
	if s.conn == nil {
		if s.conn, err = s.bus.connect(ctx); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, sendLimit)
	defer cancel()
	if _, err := s.conn.Exec(ctx, notification, payloads); err != nil {
		closeConn(s.conn)
		s.conn = nil
		return fmt.Errorf("notifying: %w", err)
	}
	return nil
}

// flush sends the remaining topics before Close. If that fails, these wake-ups are
// lost.
func (s *sender) flush() {
	ctx, cancel := context.WithTimeout(context.Background(), flushLimit)
	defer cancel()
	if err := s.send(ctx); err != nil {
		s.bus.logger.DebugContext(ctx, "lost the last notifications", "error", err)
	}
	if s.conn != nil {
		closeConn(s.conn)
	}
}
