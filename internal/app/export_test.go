package app

import (
	"context"
	"errors"
	"net/http"

	"github.com/stint-dev/stint/internal/auth"
	"github.com/stint-dev/stint/internal/config"
)

// OpenHandler opens a server that has no worker and does not listen. It returns the
// handler of the API, the service that creates tokens, and a function that closes the
// server.
func OpenHandler(ctx context.Context, c config.Config) (http.Handler, *auth.Service, func() error, error) {
	s := newServer(c, nil)
	if err := s.open(ctx); err != nil {
		return nil, nil, nil, errors.Join(err, s.close())
	}
	return s.handler(ctx), s.auth, s.close, nil
}
