package postgres

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/stint-dev/stint/internal/store"
	"github.com/stint-dev/stint/internal/store/groupcommit"
	"github.com/stint-dev/stint/internal/store/sqlstore"
)

const (
	appenders   = 2   // goroutines that commit appends: one collects while the other waits for the disk
	maxAppends  = 512 // batches that share a commit
	appendLimit = 30 * time.Second
)

// errTimeout is the error of appends that were not committed within appendLimit.
var errTimeout = fmt.Errorf("%w: it took longer than %v", store.ErrUnavailable, appendLimit)

// pendingAppend is a batch to be stored and, if settled is set, the result of the
// append.
type pendingAppend struct {
	sqlstore.EncodedBatch
	head    int64
	err     error
	settled bool
}

func (a *pendingAppend) settle(head int64, err error) {
	a.head, a.err, a.settled = head, err, true
}

// Append stores the batch together with the batches of concurrent calls.
func (s *Store) Append(ctx context.Context, at store.Position, b store.Batch) (int64, error) {
	encoded, err := sqlstore.EncodeBatch(at, b)
	if err != nil {
		return 0, err
	}
	a := &pendingAppend{EncodedBatch: encoded}
	err = s.appends.Do(ctx, a)
	if errors.Is(err, groupcommit.ErrClosed) {
		err = s.Wrap("appending to a run", err)
	}
	if err != nil {
		return 0, err
	}
	return a.head, nil
}

// commitAppends stores batches in as few transactions as possible. If several batches
// belong to the same run, each is stored in a later transaction than the preceding
// batch, whose slots it may follow.
func (s *Store) commitAppends(waiting iter.Seq[*pendingAppend]) []error {
	// A commit serves many callers, so none of their contexts cancels it.
	ctx, cancel := context.WithTimeoutCause(context.Background(), appendLimit, errTimeout)
	defer cancel()
	all := slices.Collect(waiting)
	for rest := all; len(rest) > 0; {
		var wave []*pendingAppend
		wave, rest = split(rest)
		s.commitWave(ctx, wave)
	}
	results := make([]error, len(all))
	for i, a := range all {
		results[i] = a.err
	}
	return results
}

// split returns the first batch of each run (wave) and the other batches (rest). The
// wave is sorted by run, so that concurrent transactions take slots in the same order.
func split(all []*pendingAppend) (wave, rest []*pendingAppend) {
	seen := make(map[string]bool, len(all))
	for _, a := range all {
		if seen[a.At.RunID] {
			rest = append(rest, a)
			continue
		}
		seen[a.At.RunID] = true
		wave = append(wave, a)
	}
	slices.SortFunc(wave, func(a, b *pendingAppend) int { return strings.Compare(a.At.RunID, b.At.RunID) })
	return wave, rest
}

// commitWave stores and settles each batch of a wave. If the database reports an error
// for the wave, which may be caused by a single batch, each batch is stored in its own
// transaction.
func (s *Store) commitWave(ctx context.Context, wave []*pendingAppend) {
	err := s.storeWave(ctx, wave)
	if err == nil {
		return
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if _, refused := errors.AsType[*pgconn.PgError](err); !refused {
		for _, a := range wave {
			a.settle(0, s.Wrap("appending to a run", err))
		}
		return
	}
	for _, a := range wave {
		a.settle(s.AppendEncoded(ctx, a.EncodedBatch))
	}
}

// storeWave stores the batches in one transaction. If all batches have events and no
// log entries, one statement outside a transaction is sufficient.
func (s *Store) storeWave(ctx context.Context, wave []*pendingAppend) error {
	plain := !slices.ContainsFunc(wave, func(a *pendingAppend) bool { return a.Events.Count == 0 || a.Entries.Count > 0 })
	if plain {
		return s.storeIn(ctx, s.db, wave)
	}
	return s.write(ctx, func(ctx context.Context, q sqlstore.Querier) error { return s.storeIn(ctx, q, wave) })
}

func (s *Store) storeIn(ctx context.Context, q sqlstore.Querier, wave []*pendingAppend) error {
	var events []*pendingAppend
	for _, a := range wave {
		a.settled = false
		if a.Events.Count > 0 {
			events = append(events, a)
			continue
		}
		head, err := s.AppendEntries(ctx, q, a.EncodedBatch)
		if _, fenced := errors.AsType[*store.FencedError](err); err != nil && !fenced {
			return err
		}
		a.settle(head, err)
	}
	if err := insertEvents(ctx, q, events); err != nil {
		return err
	}
	var entries []sqlstore.EncodedBatch
	for _, a := range events {
		if a.settled && a.Entries.Count > 0 {
			entries = append(entries, a.EncodedBatch)
		}
	}
	if err := sqlstore.InsertEntries(ctx, q, entries...); err != nil {
		return err
	}
	for _, a := range events {
		if a.settled {
			continue
		}
		head, err := s.ResolveConflict(ctx, q, a.EncodedBatch)
		if _, fenced := errors.AsType[*store.FencedError](err); err != nil && !fenced {
			return err
		}
		a.settle(head, err)
	}
	return nil
}

// insertEvents stores and settles the batches of a wave that have the right to their
// slots: no batch has the slot, the preceding batch ends just before it and belongs to
// the same epoch, and the lease of the run's worker was not ended.
func insertEvents(ctx context.Context, q sqlstore.Querier, wave []*pendingAppend) error {
	if len(wave) == 0 {
		return nil
	}
	var runs, tokens []string
	var afters, counts, epochs, times []int64
	var bodies [][]byte
	for _, a := range wave {
		runs, tokens = append(runs, a.At.RunID), append(tokens, a.Token)
		afters, counts = append(afters, a.At.After), append(counts, a.Events.Count)
		epochs, times = append(epochs, a.At.Epoch), append(times, a.Events.At)
		bodies = append(bodies, a.Events.Body)
	}
	rows, err := q.QueryContext(ctx, `insert into journal (run_id, seq, last, owner, token, floor, at, body)
		select u.run, u.after + 1, u.after + u.n, u.epoch, u.token, p.at, greatest(p.at, u.at), u.body
		from unnest($1::text[], $2::bigint[], $3::bigint[], $4::bigint[], $5::text[], $6::bigint[], $7::bytea[])
				u (run, after, n, epoch, token, at, body)
			cross join lateral (select last, owner, at from journal
				where run_id = u.run and seq <= u.after order by seq desc limit 1) p
		where p.last = u.after and p.owner = u.epoch and p.owner > 0
			and exists (select 1 from runs r join workers w on w.id = r.worker_id where r.id = u.run and w.lease_until > 0)
		order by u.run
		on conflict do nothing
		returning run_id, last`, runs, afters, counts, epochs, tokens, times, bodies)
	if err != nil {
		return err
	}
	defer rows.Close()
	taken := make(map[string]int64, len(wave))
	for rows.Next() {
		var run string
		var last int64
		if err := rows.Scan(&run, &last); err != nil {
			return err
		}
		taken[run] = last
	}
	for _, a := range wave {
		if last, ok := taken[a.At.RunID]; ok {
			a.settle(last, nil)
		}
	}
	return rows.Err()
}
