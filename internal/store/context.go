package store

import (
	"context"
	"time"
)

// CommitLimit is how long a transaction may take before the caller gives up.
// The transaction may still commit afterwards.
const CommitLimit = 30 * time.Second

// CommitContext returns a context for a transaction with a result that must be handled
// even if ctx ends meanwhile. The new context does not end with ctx, but after
// CommitLimit.
func CommitContext(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), CommitLimit)
}
