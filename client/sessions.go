package client

import (
	"context"
	"iter"

	"github.com/stint-dev/stint"
)

// Sessions reads threads of runs that continue one another.
type Sessions struct{ c *Client }

// Get reads one session.
func (s *Sessions) Get(ctx context.Context, id string) (*stint.Session, error) {
	return get[*stint.Session](ctx, s.c, "sessions", id)
}

// List walks the sessions, newest first. An error ends the walk.
func (s *Sessions) List(ctx context.Context) iter.Seq2[stint.Session, error] {
	return list[stint.Session](ctx, s.c, nil, 0, "sessions")
}

// Checkpoints reads the states that runs left at their end.
type Checkpoints struct{ c *Client }

// Get reads one checkpoint.
func (k *Checkpoints) Get(ctx context.Context, id string) (*stint.Checkpoint, error) {
	return get[*stint.Checkpoint](ctx, k.c, "checkpoints", id)
}
