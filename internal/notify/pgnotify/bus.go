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
	connectLimit = 10 * time.Second      // maximum time to connect, and to start listening
	firstPause   = 50 * time.Millisecond // before the second attempt to connect
	longestPause = 5 * time.Second       // maximum pause between attempts
)

// Bus is a notify.Bus over PostgreSQL. It has one connection that receives
// notifications and one that sends them.
type Bus struct {
	config *pgx.ConnConfig
	logger *slog.Logger
	id     string      // sender in payloads; the bus ignores payloads with its own id
	local  *inproc.Bus // the subscribers of this process
	outbox *outbox     // topics to be sent to other processes

	stop    context.CancelFunc
	stopped sync.WaitGroup // listenLoop and sendLoop
}

// New connects to the database and listens. The bus receives everything that is
// published after New returns. ctx applies only to connecting. connString is a URL
// or a list of keywords and values. It must not refer to a transaction pooler,
// because LISTEN needs a database session.
func New(ctx context.Context, connString string, logger *slog.Logger) (*Bus, error) {
	config, err := pgx.ParseConfig(connString)
	if err != nil {
		return nil, fmt.Errorf("parsing the database address: %w", err)
	}
	if config.RuntimeParams["application_name"] == "" {
		config.RuntimeParams["application_name"] = "stint notify"
	}
	b := &Bus{config: config, logger: logger, id: rand.Text(), local: inproc.New(), outbox: newOutbox()}
	listening, err := b.listen(ctx)
	if err != nil {
		return nil, err
	}
	sending, err := b.connect(ctx)
	if err != nil {
		closeConn(listening)
		return nil, err
	}
	lifetime, stop := context.WithCancel(context.WithoutCancel(ctx))
	b.stop = stop
	b.stopped.Go(func() { b.listenLoop(lifetime, listening) })
	b.stopped.Go(func() { b.sendLoop(lifetime, sending) })
	return b, nil
}

// Publish wakes the subscribers of topic: those in this process before it returns,
// those in other processes soon.
func (b *Bus) Publish(topic string) {
	b.local.Publish(topic)
	b.outbox.add(topic)
}

// Subscribe returns a channel that receives after each Publish of topic, and a
// function that ends the subscription.
func (b *Bus) Subscribe(topic string) (wake <-chan struct{}, cancel func()) {
	return b.local.Subscribe(topic)
}

// Close sends the topics that are not sent yet, if the database answers within a
// second, and closes both connections. It is idempotent.
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

// retry calls attempt until it succeeds or ctx ends, with exponential backoff and
// jitter. It reports whether attempt succeeded.
func (b *Bus) retry(ctx context.Context, attempt func() error) bool {
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		err := attempt()
		if err == nil {
			return true
		}
		if !sleep(ctx, pause/2+mathrand.N(pause/2)) {
			return false
		}
		b.logger.WarnContext(ctx, "notifications are delayed: the database cannot be reached", "error", err)
	}
}

// sleep waits for d. It returns false if ctx ends before.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// closeConn closes a connection that may be broken.
func closeConn(conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	// The error is ignored, because Close always closes the socket.
	_ = conn.Close(ctx)
	// If a call was interrupted, pgx closes the connection in the background.
	select {
	case <-conn.PgConn().CleanupDone():
	case <-ctx.Done():
	}
}

// broken reports whether conn is unusable. It returns false if err is only the
// expiry of a wait.
func broken(conn *pgx.Conn, err error) bool {
	return conn.IsClosed() || !errors.Is(err, context.DeadlineExceeded)
}
