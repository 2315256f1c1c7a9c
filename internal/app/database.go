package app

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"net/url"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/config"
	"github.com/stint-dev/stint/internal/notify"
	"github.com/stint-dev/stint/internal/notify/inproc"
	"github.com/stint-dev/stint/internal/notify/pgnotify"
	"github.com/stint-dev/stint/internal/store"
	"github.com/stint-dev/stint/internal/store/postgres"
	"github.com/stint-dev/stint/internal/store/sqlite"
)

// database is an open store with the bus for its wake-ups.
type database struct {
	store.Store
	bus          notify.Bus
	crossProcess bool // other servers may use the same database
}

// openDatabase opens the configured PostgreSQL database, or SQLite in the data folder.
func openDatabase(ctx context.Context, c *config.Config, d *dataFolder, log *slog.Logger) (*database, error) {
	if c.Database == "" {
		s, err := sqlite.Open(ctx, d.join("stint.db"), sqlite.Options{Logger: log})
		if err != nil {
			return nil, fmt.Errorf("open the database: %w", err)
		}
		return &database{Store: s, bus: inproc.New()}, nil
	}
	s, err := postgres.Open(ctx, c.Database, postgres.Options{Logger: log})
	if err != nil {
		return nil, fmt.Errorf("open the database %s: %w", redact(c.Database), err)
	}
	bus, err := pgnotify.New(ctx, c.Database, log)
	if err != nil {
		_ = s.Close()
		return nil, fmt.Errorf("listen for wake-ups on %s: %w", redact(c.Database), err)
	}
	return &database{Store: s, bus: bus, crossProcess: true}, nil
}

// redact returns a database URL without its password.
func redact(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return "(address not shown)"
	}
	return u.Redacted()
}

func newIDs() *stint.IDs { return stint.NewIDs(time.Now, rand.Reader) }
