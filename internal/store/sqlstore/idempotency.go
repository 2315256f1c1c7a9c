package sqlstore

import (
	"bytes"
	"context"
	"database/sql"
	"errors"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/store"
)

// claimedKey is the row of an idempotency key. status.Valid is true if the request
// was answered.
type claimedKey struct {
	fingerprint        []byte
	startedAt, expires stint.Time
	status             sql.Null[int]
	answer             store.Answer
}

func scanKey(r Row) (k claimedKey, err error) {
	return k, r.Scan(&k.fingerprint, timeAt{&k.startedAt}, timeAt{&k.expires}, &k.status, jsonOf{&k.answer.Header}, &k.answer.Body)
}

// BeginRequest claims the key of an organisation for a request.
func (s *Store) BeginRequest(ctx context.Context, org, key string, fingerprint []byte, now, stale, expires stint.Time) (*store.Answer, error) {
	return change(ctx, s, "claiming an idempotency key", func(ctx context.Context, q Querier) (*store.Answer, error) {
		for range maxTries {
			n, err := exec(ctx, q, `insert into idempotency (org_id, key, fingerprint, started_at, expires_at)
				values ($1, $2, $3, $4, $5) on conflict do nothing`, org, key, fingerprint, micros(now), micros(expires))
			if err != nil || n == 1 {
				return nil, err
			}
			k, err := one(ctx, q, scanKey, `select l.fingerprint, l.started_at, l.expires_at, l.status, l.header, l.body from idempotency l
				where l.org_id = $1 and l.key = $2`+s.d.Lock, org, key)
			if errors.Is(err, store.ErrNotFound) {
				continue // the key was released since the insert
			}
			if err != nil {
				return nil, err
			}
			if a, err := k.answerTo(fingerprint, now, stale); a != nil || err != nil {
				return a, err
			}
			_, err = exec(ctx, q, `update idempotency set fingerprint = $3, started_at = $4, expires_at = $5, status = null, header = null, body = null
				where org_id = $1 and key = $2`, org, key, fingerprint, micros(now), micros(expires))
			return nil, err
		}
		return nil, errContention
	})
}

// answerTo returns the answer or the error for a request that finds the key in
// use, or neither if the request may take the key over.
func (k *claimedKey) answerTo(fingerprint []byte, now, stale stint.Time) (*store.Answer, error) {
	switch {
	case k.expires.Before(now.Time):
		return nil, nil
	case !bytes.Equal(k.fingerprint, fingerprint):
		return nil, store.ErrKeyReused
	case k.status.Valid:
		k.answer.Status = k.status.V
		return &k.answer, nil
	case !k.startedAt.Before(stale.Time):
		return nil, store.ErrKeyInUse
	}
	return nil, nil
}

// EndRequest stores the answer. If a is nil, it releases the key.
func (s *Store) EndRequest(ctx context.Context, org, key string, claimed stint.Time, a *store.Answer) error {
	return s.write(ctx, "ending a request", func(ctx context.Context, q Querier) error {
		if a != nil {
			return run(ctx, q, storeAnswer(org, key, claimed, *a))
		}
		_, err := exec(ctx, q, `delete from idempotency where org_id = $1 and key = $2 and started_at = $3 and status is null`, org, key, micros(claimed))
		return err
	})
}

// storeAnswer stores an answer if the request still owns the key. After a
// takeover, started_at differs.
func storeAnswer(org, key string, claimed stint.Time, a store.Answer) Step {
	return stepOne(store.ErrKeyInUse, `update idempotency set status = $3, header = $4, body = $5 where org_id = $1 and key = $2 and started_at = $6`,
		org, key, a.Status, asJSON(a.Header), a.Body, micros(claimed))
}

// PurgeRequests removes the keys that expired before now, with or without an answer.
func (s *Store) PurgeRequests(ctx context.Context, now stint.Time) (int64, error) {
	return change(ctx, s, "purging idempotency keys", func(ctx context.Context, q Querier) (int64, error) {
		return exec(ctx, q, `delete from idempotency where expires_at < $1`, micros(now))
	})
}
