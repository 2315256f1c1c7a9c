package client

import (
	"context"
	"iter"

	"github.com/stint-dev/stint"
)

// Sessions reads sessions: runs that continue one another.
type Sessions struct{ c *Client }

// Get returns a session.
func (s *Sessions) Get(ctx context.Context, id string) (*stint.Session, error) {
	return get[stint.Session](ctx, s.c, "sessions", id)
}

// List iterates over the sessions, newest first, and ends after an error.
func (s *Sessions) List(ctx context.Context) iter.Seq2[stint.Session, error] {
	return list[stint.Session](ctx, s.c, nil, 0, "sessions")
}

// Checkpoints reads checkpoints, the final states of runs.
type Checkpoints struct{ c *Client }

// Get returns a checkpoint.
func (k *Checkpoints) Get(ctx context.Context, id string) (*stint.Checkpoint, error) {
	return get[stint.Checkpoint](ctx, k.c, "checkpoints", id)
}
