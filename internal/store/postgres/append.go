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
	appenders   = 2   // goroutines that commit appends: one waits for the disk while the other collects
	mostAppends = 512 // batches that share a commit
	appendLimit = 30 * time.Second
	logTries    = 1000 // for numbers of the side log; each loss means that another write went through
)

// errSlow is why a commit of appends was given up.
var errSlow = fmt.Errorf("%w: it took longer than %v", store.ErrUnavailable, appendLimit)

// appending is one batch on its way, and where its verdict goes.
type appending struct {
	sqlstore.EncodedBatch
	head   int64
	err    error
	judged bool
}

func (a *appending) settle(head int64, err error) {
	a.head, a.err, a.judged = head, err, true
}

// Append stores the batch together with those that arrive at the same time.
func (s *Store) Append(ctx context.Context, at store.Position, b store.Batch) (int64, error) {
	packed, err := sqlstore.EncodeBatch(at, b)
	if err != nil {
		return 0, err
	}
	a := &appending{EncodedBatch: packed}
	err = s.appends.Do(ctx, a)
	if errors.Is(err, groupcommit.ErrClosed) {
		err = s.Wrap("appending to a run", err)
	}
	if err != nil {
		return 0, err
	}
	return a.head, nil
}

// commitAppends stores batches in as few transactions as possible: one, unless
// several are of the same run and may build on one another.
func (s *Store) commitAppends(waiting iter.Seq[*appending]) []error {
	// A commit belongs to many callers, so none of their contexts ends it.
	ctx, cancel := context.WithTimeoutCause(context.Background(), appendLimit, errSlow)
	defer cancel()
	all := slices.Collect(waiting)
	for rest := all; len(rest) > 0; {
		var wave []*appending
		wave, rest = split(rest)
		s.commitWave(ctx, wave)
	}
	verdicts := make([]error, len(all))
	for i, a := range all {
		verdicts[i] = a.err
	}
	return verdicts
}

// split takes the first batch of each run, sorted: slots are then taken in the
// same order by everybody.
func split(all []*appending) (wave, rest []*appending) {
	seen := make(map[string]bool, len(all))
	for _, a := range all {
		if seen[a.At.RunID] {
			rest = append(rest, a)
			continue
		}
		seen[a.At.RunID] = true
		wave = append(wave, a)
	}
	slices.SortFunc(wave, func(a, b *appending) int { return strings.Compare(a.At.RunID, b.At.RunID) })
	return wave, rest
}

// commitWave settles each batch of a wave. When the database refuses the wave,
// perhaps for the sake of one of them, each goes on its own.
func (s *Store) commitWave(ctx context.Context, wave []*appending) {
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

// storeWave stores the batches in one transaction, or in one statement where
// there are no log entries.
func (s *Store) storeWave(ctx context.Context, wave []*appending) error {
	plain := !slices.ContainsFunc(wave, func(a *appending) bool { return a.Events.Count == 0 || a.Entries.Count > 0 })
	if plain {
		return s.storeIn(ctx, s.db, wave)
	}
	return s.write(ctx, func(ctx context.Context, q sqlstore.Querier) error { return s.storeIn(ctx, q, wave) })
}

func (s *Store) storeIn(ctx context.Context, q sqlstore.Querier, wave []*appending) error {
	var events []*appending
	for _, a := range wave {
		a.judged = false
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
	if err := insertLogs(ctx, q, events); err != nil {
		return err
	}
	for _, a := range events {
		if a.judged {
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

// insertEvents takes the slots of a wave as far as they are free, and settles
// those that it took. A slot is free when nobody has it and the batch before it
// ends just there and belongs to the same epoch, whose worker was not ended.
func insertEvents(ctx context.Context, q sqlstore.Querier, wave []*appending) error {
	if len(wave) == 0 {
		return nil
	}
	c := newColumns(wave, func(a *appending) sqlstore.EncodedRow { return a.Events })
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
		returning run_id, last`, c.runs, c.afters, c.counts, c.epochs, c.tokens, c.times, c.bodies)
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

// insertLogs stores the log entries of the batches that took their slots.
func insertLogs(ctx context.Context, q sqlstore.Querier, wave []*appending) error {
	left := make(map[string]*appending)
	for _, a := range wave {
		if a.judged && a.Entries.Count > 0 {
			left[a.At.RunID] = a
		}
	}
	for range logTries {
		if len(left) == 0 {
			return nil
		}
		var now []*appending
		for _, a := range wave {
			if left[a.At.RunID] == a {
				now = append(now, a)
			}
		}
		if err := insertLogsOnce(ctx, q, now, left); err != nil {
			return err
		}
	}
	return errors.New("the side log does not come to rest")
}

// insertLogsOnce removes from left whose entries it stored; others lost their
// numbers to somebody else and are tried again.
func insertLogsOnce(ctx context.Context, q sqlstore.Querier, wave []*appending, left map[string]*appending) error {
	c := newColumns(wave, func(a *appending) sqlstore.EncodedRow { return a.Entries })
	for i, a := range wave {
		c.tokens[i] = a.EntriesToken()
	}
	rows, err := q.QueryContext(ctx, `insert into log_entries (run_id, seq, last, token, floor, at, body)
		select u.run, coalesce(p.last, 0) + 1, coalesce(p.last, 0) + u.n, u.token, coalesce(p.at, 0), greatest(p.at, u.at), u.body
		from unnest($1::text[], $2::bigint[], $3::text[], $4::bigint[], $5::bytea[]) u (run, n, token, at, body)
			left join lateral (select last, at from log_entries where run_id = u.run order by seq desc limit 1) p on true
		order by u.run
		on conflict do nothing
		returning run_id`, c.runs, c.counts, c.tokens, c.times, c.bodies)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var run string
		if err := rows.Scan(&run); err != nil {
			return err
		}
		delete(left, run)
	}
	return rows.Err()
}

// columns are batches turned into arrays, a parameter each.
type columns struct {
	runs, tokens                  []string
	afters, counts, epochs, times []int64
	bodies                        [][]byte
}

func newColumns(wave []*appending, part func(*appending) sqlstore.EncodedRow) columns {
	var c columns
	for _, a := range wave {
		p := part(a)
		c.runs = append(c.runs, a.At.RunID)
		c.tokens = append(c.tokens, a.Token)
		c.afters = append(c.afters, a.At.After)
		c.counts = append(c.counts, p.Count)
		c.epochs = append(c.epochs, a.At.Epoch)
		c.times = append(c.times, p.At)
		c.bodies = append(c.bodies, p.Body)
	}
	return c
}
