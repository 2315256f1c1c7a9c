package app

import (
	"context"
	"errors"
	"log/slog"
	"net/http"

	"github.com/stint-dev/stint/internal/auth"
	"github.com/stint-dev/stint/internal/config"
	"github.com/stint-dev/stint/internal/telemetry"
)

// OpenHandler opens a server without a worker and without an address.
func OpenHandler(ctx context.Context, c config.Config) (http.Handler, *auth.Service, func() error, error) {
	s := &server{c: c, log: slog.New(slog.DiscardHandler), ids: newIDs(), registry: telemetry.Registry()}
	if err := s.open(ctx); err != nil {
		return nil, nil, nil, errors.Join(err, s.close())
	}
	return s.handler(ctx), s.auth, s.close, nil
}
