package app

import (
	"context"
	"errors"
	"log/slog"
	"net/http"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/auth"
	"github.com/stint-dev/stint/internal/config"
	"github.com/stint-dev/stint/internal/dispatch"
	"github.com/stint-dev/stint/internal/feed"
	"github.com/stint-dev/stint/internal/runs"
	"github.com/stint-dev/stint/internal/store"
	"github.com/stint-dev/stint/internal/telemetry"
)

// Parts is a server without a worker and without an address, wired as Run
// wires it, for measuring between its layers.
type Parts struct {
	Store    store.Store
	Feed     *feed.Feed
	Dispatch *dispatch.Local
	Auth     *auth.Service
	Runs     *runs.Service
	IDs      *stint.IDs
	Handler  http.Handler // of the API

	close func() error
}

// OpenParts opens the installation of the configuration. Streams end with ctx.
// The feed reads the journal that journal makes of the database's.
func OpenParts(ctx context.Context, c config.Config, journal func(store.Journal) store.Journal) (*Parts, error) {
	s := &server{c: c, journal: journal, log: slog.New(slog.DiscardHandler), ids: newIDs(), registry: telemetry.Registry()}
	if err := s.open(ctx); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return &Parts{
		Store: s.db, Feed: s.feed, Dispatch: s.dispatch, Auth: s.auth, IDs: s.ids,
		Runs:    s.runs(),
		Handler: s.handler(ctx),
		close:   s.close,
	}, nil
}

// Close gives the installation up.
func (p *Parts) Close() error { return p.close() }
