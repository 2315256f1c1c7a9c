package pgnotify

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	pingInterval = 15 * time.Second // time without a notification after which the connection is pinged
	pingLimit    = 5 * time.Second  // maximum time of a ping
)

// listen opens a connection that receives notifications.
func (b *Bus) listen(ctx context.Context) (*pgx.Conn, error) {
	conn, err := b.connect(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, connectLimit)
	defer cancel()
	if _, err := conn.Exec(ctx, "listen "+channel); err != nil {
		closeConn(conn)
		return nil, fmt.Errorf("listening for notifications: %w", err)
	}
	return conn, nil
}

// listenLoop wakes local subscribers when other processes publish, until ctx ends.
// It replaces a lost connection.
func (b *Bus) listenLoop(ctx context.Context, conn *pgx.Conn) {
	for {
		err := b.receive(ctx, conn)
		closeConn(conn)
		if ctx.Err() != nil {
			return
		}
		b.logger.WarnContext(ctx, "lost the connection that receives notifications", "error", err)
		reconnect := func() (err error) {
			conn, err = b.listen(ctx)
			return err
		}
		if !b.retry(ctx, reconnect) {
			return
		}
		b.logger.InfoContext(ctx, "receiving notifications again")
		b.local.PublishAll()
	}
}

// receive handles notifications until the connection or ctx ends.
func (b *Bus) receive(ctx context.Context, conn *pgx.Conn) error {
	for {
		waitCtx, cancel := context.WithTimeout(ctx, pingInterval)
		n, err := conn.WaitForNotification(waitCtx)
		cancel()
		switch {
		case err == nil:
			b.deliver(n.Payload)
		case ctx.Err() != nil || broken(conn, err):
			return err
		default: // no notification for a while: the connection may be broken
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

// deliver wakes the subscribers of one payload's topics. A payload that cannot be
// decoded, possibly from another version of this program, wakes all subscribers.
func (b *Bus) deliver(payload string) {
	sender, topics, err := decode(payload)
	switch {
	case sender == b.id: // Publish has woken the subscribers
	case errors.Is(err, errEverything):
		b.local.PublishAll()
	default:
		for _, topic := range topics {
			b.local.Publish(topic)
		}
	}
}
