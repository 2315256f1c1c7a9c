package runs

import (
	"context"
	"errors"
	"fmt"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/store"
)

// kind is a kind of resource that has an identifier.
type kind struct{ prefix, noun string }

var (
	runKind        = kind{stint.PrefixRun, "run"}
	agentKind      = kind{stint.PrefixAgent, "agent"}
	sessionKind    = kind{stint.PrefixSession, "session"}
	checkpointKind = kind{stint.PrefixCheckpoint, "checkpoint"}
)

// lookup returns what read returns for an identifier. The error is NotFound if
// id does not have the form of an identifier of this kind, or does not exist.
func lookup[T any](ctx context.Context, read func(ctx context.Context, org, id string) (T, error), k kind, org, id string) (T, error) {
	var none T
	if !stint.IsID(k.prefix, id) {
		return none, stint.NotFound(k.noun, id)
	}
	found, err := read(ctx, org, id)
	if err != nil {
		return none, notFound(err, k.noun, id)
	}
	return found, nil
}

// notFound maps store.ErrNotFound to a public error and wraps other errors.
func notFound(err error, noun, requested string) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, store.ErrNotFound):
		return stint.NotFound(noun, requested)
	}
	return fmt.Errorf("read %s %s: %w", noun, requested, err)
}
