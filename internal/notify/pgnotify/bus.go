package pgnotify

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	mathrand "math/rand/v2"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stint-dev/stint/internal/notify/inproc"
)

const (
	connectLimit = 10 * time.Second      // to connect and to start listening
	firstPause   = 50 * time.Millisecond // before the second attempt to connect
	longestPause = 5 * time.Second       // between attempts
)

// Bus is a notify.Bus over PostgreSQL with two connections of its own.
type Bus struct {
	config *pgx.ConnConfig
	logger *slog.Logger
	sender string      // names this bus in what it sends, to know its own
	local  *inproc.Bus // the subscribers
	outbox *outbox     // what other processes must still hear

	stop    context.CancelFunc
	stopped sync.WaitGroup // the listener and the talker
}

// New connects to the database and listens: what is published after New is
// heard. ctx bounds connecting only. connString is a URL or a list of
// keywords and values; the connections must be sessions, not a transaction
// pooler's.
func New(ctx context.Context, connString string, logger *slog.Logger) (*Bus, error) {
	config, err := pgx.ParseConfig(connString)
	if err != nil {
		return nil, fmt.Errorf("reading the address of the database: %w", err)
	}
	if config.RuntimeParams["application_name"] == "" {
		config.RuntimeParams["application_name"] = "stint notify"
	}
	b := &Bus{config: config, logger: logger, sender: rand.Text(), local: inproc.New(), outbox: newOutbox()}
	listening, err := b.listen(ctx)
	if err != nil {
		return nil, err
	}
	talking, err := b.connect(ctx)
	if err != nil {
		hangUp(listening)
		return nil, err
	}
	lifetime, stop := context.WithCancel(context.WithoutCancel(ctx))
	b.stop = stop
	b.stopped.Go(func() { b.hear(lifetime, listening) })
	b.stopped.Go(func() { b.talk(lifetime, talking) })
	return b, nil
}

// Publish wakes the subscribers of topic, here before it returns and
// elsewhere soon.
func (b *Bus) Publish(topic string) {
	b.local.Publish(topic)
	b.outbox.add(topic)
}

// Subscribe registers a waiter.
func (b *Bus) Subscribe(topic string) (wake <-chan struct{}, cancel func()) {
	return b.local.Subscribe(topic)
}

// Close sends what was published before it, as far as the database answers
// within a second, and ends both connections. Another Close waits for the
// same and does nothing.
func (b *Bus) Close() error {
	b.outbox.close()
	b.stop()
	b.stopped.Wait()
	return b.local.Close()
}

func (b *Bus) connect(ctx context.Context) (*pgx.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, connectLimit)
	defer cancel()
	conn, err := pgx.ConnectConfig(ctx, b.config)
	if err != nil {
		return nil, fmt.Errorf("connecting for notifications: %w", err)
	}
	return conn, nil
}

// again calls attempt until it succeeds or ctx ends, with a pause between
// calls that doubles and varies, so that many processes do not return at once.
// It reports whether attempt succeeded.
func (b *Bus) again(ctx context.Context, attempt func() error) bool {
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		err := attempt()
		if err == nil {
			return true
		}
		if !rest(ctx, pause/2+mathrand.N(pause/2)) {
			return false
		}
		b.logger.WarnContext(ctx, "notifications are late: the database cannot be reached", "error", err)
	}
}

// rest waits for d; it reports false when ctx ended instead.
func rest(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// hangUp closes a connection that may be broken.
func hangUp(conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	// A server that is gone cannot be told goodbye; the socket closes all the same.
	_ = conn.Close(ctx)
	// One whose call was cut off is closed in the background.
	select {
	case <-conn.PgConn().CleanupDone():
	case <-ctx.Done():
	}
}

// broken reports whether err is more than the end of our own waiting.
func broken(conn *pgx.Conn, err error) bool {
	return conn.IsClosed() || !errors.Is(err, context.DeadlineExceeded)
}
