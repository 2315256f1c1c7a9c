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
	outboxLimit  = 10_000               // maximum number of topics; beyond it, all subscribers are woken
)

// notification sends any number of payloads in one statement.
const notification = "select pg_notify('" + channel + "', p) from unnest($1::text[]) p"

// outbox collects the topics to send to other processes, escaped and without duplicates.
// If there are more than outboxLimit, the word everything replaces them all.
type outbox struct {
	filled chan struct{} // has a value if there may be topics to send

	mu     sync.Mutex // guards the fields below
	words  map[string]struct{}
	closed bool
}

func newOutbox() *outbox {
	return &outbox{filled: make(chan struct{}, 1), words: map[string]struct{}{}}
}

func (o *outbox) add(topic string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return
	}
	o.put(escape(topic))
	select {
	case o.filled <- struct{}{}:
	default:
	}
}

// put adds a word. The caller holds o.mu.
func (o *outbox) put(word string) {
	if len(o.words) >= outboxLimit || word == everything {
		clear(o.words)
		word = everything
	}
	if _, all := o.words[everything]; !all {
		o.words[word] = struct{}{}
	}
}

func (o *outbox) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
}

// take removes all words and returns them.
func (o *outbox) take() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	words := slices.Collect(maps.Keys(o.words))
	clear(o.words)
	return words
}

// giveBack adds words that could not be sent.
func (o *outbox) giveBack(words []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, word := range words {
		o.put(word)
	}
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

// send sends the words in the outbox. If it fails, it puts them back.
func (s *sender) send(ctx context.Context) (err error) {
	words := s.bus.outbox.take()
	if len(words) == 0 {
		return nil
	}
	defer func() {
		if err != nil {
			s.bus.outbox.giveBack(words)
		}
	}()
	if s.conn == nil {
		if s.conn, err = s.bus.connect(ctx); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, sendLimit)
	defer cancel()
	if _, err := s.conn.Exec(ctx, notification, encode(s.bus.id, words)); err != nil {
		closeConn(s.conn)
		s.conn = nil
		return fmt.Errorf("notifying: %w", err)
	}
	return nil
}

// flush sends the remaining topics and closes the connection. If sending fails, other
// processes are not notified of these topics.
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
