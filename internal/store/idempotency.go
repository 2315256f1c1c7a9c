package store

import (
	"context"
	"errors"

	"github.com/stint-dev/stint"
)

// Idempotency stores the answers of requests with an Idempotency-Key.
type Idempotency interface {
	// BeginRequest claims the key of an organisation for a request. It returns
	// nil if the caller now owns the key, the stored answer if the same request
	// was answered, ErrKeyReused if the key belongs to another request, and
	// ErrKeyInUse if the first request is still in progress. If the same request
	// claimed the key before stale and has no answer, the caller takes it over,
	// and the earlier owner can no longer store an answer. The key and its answer
	// are kept until expires; afterwards any request can claim the key.
	BeginRequest(ctx context.Context, org, key string, fingerprint []byte, now, stale, expires stint.Time) (*Answer, error)
	// EndRequest stores the answer of the request that claimed the key at the
	// given time. If the claim was taken over, the error is ErrKeyInUse. If a is
	// nil, EndRequest releases the key, provided that the request still owns it.
	EndRequest(ctx context.Context, org, key string, claimed stint.Time, a *Answer) error
	// PurgeRequests removes the keys that expired before now, with or without an
	// answer, and returns their number.
	PurgeRequests(ctx context.Context, now stint.Time) (int64, error)
}

// Errors of requests with an idempotency key.
var (
	ErrKeyReused = errors.New("store: idempotency key belongs to another request")
	ErrKeyInUse  = errors.New("store: idempotency key is in use")
)

// Answer is a stored HTTP response.
type Answer struct {
	Status int
	Header map[string]string
	Body   []byte
}
