package app

import (
	"context"
	"errors"
	"net/http"

	"github.com/stint-dev/stint/internal/auth"
	"github.com/stint-dev/stint/internal/config"
)

// OpenHandler opens a server without a worker and without an address.
func OpenHandler(ctx context.Context, c config.Config) (http.Handler, *auth.Service, func() error, error) {
	s := newServer(c, nil)
	if err := s.open(ctx); err != nil {
		return nil, nil, nil, errors.Join(err, s.close())
	}
	return s.handler(ctx), s.auth, s.close, nil
}
