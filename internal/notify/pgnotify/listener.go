package pgnotify

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	silenceLimit = 15 * time.Second // without a notification before the connection is tried
	pingLimit    = 5 * time.Second
)

// listen opens the connection that hears notifications.
func (b *Bus) listen(ctx context.Context) (*pgx.Conn, error) {
	conn, err := b.connect(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, connectLimit)
	defer cancel()
	if _, err := conn.Exec(ctx, "listen "+channel); err != nil {
		hangUp(conn)
		return nil, fmt.Errorf("listening for notifications: %w", err)
	}
	return conn, nil
}

// hear wakes local subscribers for other processes until ctx ends.
func (b *Bus) hear(ctx context.Context, conn *pgx.Conn) {
	for {
		err := b.receive(ctx, conn)
		hangUp(conn)
		if ctx.Err() != nil {
			return
		}
		b.logger.WarnContext(ctx, "the connection that hears notifications is lost", "error", err)
		again := func() (err error) {
			conn, err = b.listen(ctx)
			return err
		}
		if !b.again(ctx, again) {
			return
		}
		b.logger.InfoContext(ctx, "notifications are heard again")
		b.local.PublishAll()
	}
}

// receive handles notifications until the connection or ctx ends.
func (b *Bus) receive(ctx context.Context, conn *pgx.Conn) error {
	for {
		quiet, cancel := context.WithTimeout(ctx, silenceLimit)
		n, err := conn.WaitForNotification(quiet)
		cancel()
		switch {
		case err == nil:
			b.deliver(n.Payload)
		case ctx.Err() != nil || broken(conn, err):
			return err
		default: // nothing for long: the peer may be gone without a word
			if err := ping(ctx, conn); err != nil {
				return err
			}
		}
	}
}

func ping(ctx context.Context, conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, pingLimit)
	defer cancel()
	return conn.Ping(ctx)
}

// deliver wakes for one payload. One that we cannot read comes from another
// version of ourselves and may mean anything.
func (b *Bus) deliver(payload string) {
	sender, topics, err := decode(payload)
	switch {
	case sender == b.sender: // woken already
	case errors.Is(err, errEverything):
		b.local.PublishAll()
	default:
		for _, topic := range topics {
			b.local.Publish(topic)
		}
	}
}
