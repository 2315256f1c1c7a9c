package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/stint-dev/stint"
)

// nouns contains the names of the kinds of resources for which Lookup is called, by
// the prefix of their identifiers.
var nouns = map[string]string{
	stint.PrefixRun: "run", stint.PrefixSession: "session", stint.PrefixCheckpoint: "checkpoint",
	stint.PrefixAgent: "agent", stint.PrefixArtifact: "artifact", stint.PrefixVolume: "volume",
	stint.PrefixToken: "token",
}

// Lookup calls f with org and id and returns its result. If id is not an identifier
// with the prefix, or f returns ErrNotFound, the error is stint.NotFound.
func Lookup[T any](ctx context.Context, f func(ctx context.Context, org, id string) (T, error), prefix, org, id string) (T, error) {
	var none T
	if !stint.IsID(prefix, id) {
		return none, stint.NotFound(nouns[prefix], id)
	}
	found, err := f(ctx, org, id)
	if err != nil {
		return none, PublicError(err, nouns[prefix], id)
	}
	return found, nil
}

// PublicError returns stint.NotFound for ErrNotFound, and wraps other errors with
// the noun and the requested name of the resource.
func PublicError(err error, noun, requested string) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrNotFound):
		return stint.NotFound(noun, requested)
	}
	return fmt.Errorf("%s %q: %w", noun, requested, err)
}
