package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/store"
)

// errContention means that other writers took the slot maxTries times.
var errContention = errors.New("too many concurrent writers to the journal")

// errSlotTaken means that an owned position is no longer the head.
var errSlotTaken = errors.New("the slot is taken")

// maxTries limits the attempts to take a slot. Each failed attempt means that
// another write succeeded, so few are needed.
const maxTries = 1000

// alive is the condition that the lease of run $1's worker was not ended. An
// expired lease is left to Reap, which takes the next slot.
const alive = `exists (select 1 from runs r join workers w on w.id = r.worker_id where r.id = $1 and w.lease_until > 0)`

// Append stores a batch in its own transaction.
func (s *Store) Append(ctx context.Context, at store.Position, b store.Batch) (int64, error) {
	p, err := EncodeBatch(at, b)
	if err != nil {
		return 0, err
	}
	return s.AppendEncoded(ctx, p)
}

// EncodedBatch is a batch that is ready to be stored at a position.
type EncodedBatch struct {
	At      store.Position
	Token   string
	Events  EncodedRow
	Entries EncodedRow
}

// EntriesToken returns the token of the log entries. It includes the epoch,
// because a worker's tokens may repeat in another epoch and the rows of log
// entries have no epoch.
func (a EncodedBatch) EntriesToken() string {
	if a.Token == "" {
		return ""
	}
	return strconv.FormatInt(a.At.Epoch, 10) + "/" + a.Token
}

// EncodeBatch encodes a batch.
func EncodeBatch(at store.Position, b store.Batch) (EncodedBatch, error) {
	entries, err := EncodeEntries(b.Logs)
	return EncodedBatch{At: at, Token: b.Token, Events: EncodeEvents(b.Events), Entries: entries}, err
}

// AppendEncoded stores one batch in its own transaction.
func (s *Store) AppendEncoded(ctx context.Context, a EncodedBatch) (int64, error) {
	return change(ctx, s, "appending to a run", func(ctx context.Context, q Querier) (int64, error) {
		if a.Events.Count == 0 {
			return s.AppendEntries(ctx, q, a)
		}
		n, err := exec(ctx, q, `insert into journal (run_id, seq, last, owner, token, floor, at, body)
			select $1, $2, $3, $4, $5, p.at, case when p.at > $6 then p.at else $6 end, $7
			from journal p
			where p.run_id = $1 and p.seq = (select max(seq) from journal where run_id = $1 and seq < $2)
				and p.last = $8 and p.owner = $4 and p.owner > 0 and `+alive+`
			on conflict do nothing`,
			a.At.RunID, a.At.After+1, a.At.After+a.Events.Count, a.At.Epoch, a.Token, a.Events.At, a.Events.Body, a.At.After)
		if err != nil {
			return 0, err
		}
		if n == 0 {
			return s.ResolveConflict(ctx, q, a)
		}
		if a.Entries.Count > 0 {
			err = insertEntries(ctx, q, a.At.RunID, a.EntriesToken(), a.Entries)
		}
		return a.At.After + a.Events.Count, err
	})
}

// ResolveConflict handles a batch of events whose slot is taken. If the batch
// itself is stored there, it returns the head after it. Otherwise it returns a
// *store.FencedError.
func (s *Store) ResolveConflict(ctx context.Context, q Querier, a EncodedBatch) (int64, error) {
	last, err := one(ctx, q, value[int64], `select last from journal
		where run_id = $1 and seq = $2 and owner = $3 and owner > 0 and token = $4 and token <> ''`, a.At.RunID, a.At.After+1, a.At.Epoch, a.Token)
	if errors.Is(err, store.ErrNotFound) {
		return 0, fence(ctx, q, a.At.RunID)
	}
	return last, err
}

// fence returns a *store.FencedError with the state of a run.
func fence(ctx context.Context, q Querier, run string) error {
	f := new(store.FencedError)
	err := queryRow(ctx, q, `select r.status, r.epoch, (select last from journal where run_id = r.id order by seq desc limit 1)
		from runs r where r.id = $1`, run).Scan(&f.Status, &f.Epoch, &f.Head)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	return f
}

// AppendEntries stores log entries without events if the run is running in that
// epoch. A retry of the last stored batch succeeds.
func (s *Store) AppendEntries(ctx context.Context, q Querier, a EncodedBatch) (int64, error) {
	_, err := one(ctx, q, value[string], `select l.id from runs l join workers w on w.id = l.worker_id
		where l.id = $1 and l.status = 'running' and l.epoch = $2 and w.lease_until > 0`+s.d.Share, a.At.RunID, a.At.Epoch)
	if errors.Is(err, store.ErrNotFound) {
		return 0, fence(ctx, q, a.At.RunID)
	}
	if err != nil || a.Entries.Count == 0 {
		return a.At.After, err
	}
	for range maxTries {
		last, err := all(ctx, q, value[string], `select token from log_entries where run_id = $1 order by seq desc limit 1`, a.At.RunID)
		if err != nil || len(last) == 1 && last[0] == a.EntriesToken() && a.Token != "" {
			return a.At.After, err
		}
		done, err := insertEntriesOnce(ctx, q, a.At.RunID, a.EntriesToken(), a.Entries)
		if err != nil || done {
			return a.At.After, err
		}
	}
	return 0, errContention
}

// insertEntries appends log entries to the side log of a run.
func insertEntries(ctx context.Context, q Querier, run, token string, p EncodedRow) error {
	for range maxTries {
		if done, err := insertEntriesOnce(ctx, q, run, token, p); err != nil || done {
			return err
		}
	}
	return errContention
}

// insertEntriesOnce reports false if another writer took the numbers.
func insertEntriesOnce(ctx context.Context, q Querier, run, token string, p EncodedRow) (bool, error) {
	n, err := exec(ctx, q, `insert into log_entries (run_id, seq, last, token, floor, at, body)
		select $1, coalesce(p.last, 0) + 1, coalesce(p.last, 0) + $2, $3, coalesce(p.at, 0), case when p.at > $4 then p.at else $4 end, $5
		from (select 1 as one) o left join log_entries p
			on p.run_id = $1 and p.seq = (select max(seq) from log_entries where run_id = $1)
		where true
		on conflict do nothing`, run, p.Count, token, p.At, p.Body)
	return n == 1, err
}

// insertFirst stores event 1 of a run.
func insertFirst(run string, p EncodedRow) Step {
	return stepOne(store.ErrExists, `insert into journal (run_id, seq, last, owner, token, floor, at, body)
		values ($1, 1, $2, 0, '', $3, $3, $4) on conflict do nothing`, run, p.Count, p.At, p.Body)
}

// transition is a change of a run's status, stored as its next events. The run's
// row is locked, but appends can still take slots.
type transition struct {
	run    string
	owned  *int64 // the event that it must follow; nil for the head
	token  string
	starts bool // the slots after it belong to the run's epoch; otherwise to no epoch
	events EncodedRow
	head   int64 // after the transition; 0 if the slot was taken
}

// insert takes the slot, unless a concurrent append takes it first.
func (t *transition) insert() Step {
	after := int64(-1)
	if t.owned != nil {
		after = *t.owned
	}
	var taken bool
	return into(&t.head, &taken, value[int64], `insert into journal (run_id, seq, last, owner, token, floor, at, body)
		select $1, p.last + 1, p.last + $2, case when $3 = 1 then r.epoch else 0 end, $4, p.at, case when p.at > $5 then p.at else $5 end, $6
		from journal p join runs r on r.id = p.run_id
		where p.run_id = $1 and p.seq = (select max(seq) from journal where run_id = $1) and (p.last = $7 or $7 < 0)
		on conflict do nothing
		returning last`, t.run, t.events.Count, bit(t.starts), t.token, t.events.At, t.events.Body, after)
}

// settle repeats insert until it took a slot. If the transition must follow an
// owned position, it returns errSlotTaken instead.
func (t *transition) settle(ctx context.Context, q Querier) error {
	for range maxTries {
		if t.head > 0 {
			return nil
		}
		if t.owned != nil {
			return errSlotTaken
		}
		if err := run(ctx, q, t.insert()); err != nil {
			return err
		}
	}
	return errContention
}

// Head returns the number of the last event and the run's status.
func (s *Store) Head(ctx context.Context, run string) (head int64, status stint.Status, err error) {
	err = queryRow(ctx, s.db.Read, `select (select last from journal where run_id = r.id order by seq desc limit 1), r.status
		from runs r where r.id = $1`, run).Scan(&head, &status)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, "", nil
	}
	return head, status, s.Wrap("reading a journal's head", err)
}

// Events returns events after the given one.
func (s *Store) Events(ctx context.Context, run string, after int64, limit int) ([]stint.Event, error) {
	events, err := s.eventsBetween(ctx, run, after, upTo(after, limit), store.MaxReadBytes)
	return events, s.Wrap("reading events", err)
}

// upTo returns after + limit without overflow.
func upTo(after int64, limit int) int64 {
	return after + min(int64(max(limit, 1)), math.MaxInt64-max(after, 0))
}

// errStop ends the reading of batches.
var errStop = errors.New("stop reading")

// eventsBetween returns the events after a number, up to the end of the batch that
// contains the number to, or of the batch that reaches the given bytes of data.
// Numbers have no gaps, so the range also limits the count.
func (s *Store) eventsBetween(ctx context.Context, run string, after, to, bytes int64) ([]stint.Event, error) {
	var events []stint.Event
	err := s.batches(ctx, `journal`, run, after, to, bytes, func(seq, floor int64, body []byte) error {
		batch, err := DecodeEvents(body, seq, floor)
		if err != nil {
			return fmt.Errorf("batch %d of run %s: %w", seq, run, err)
		}
		if skip := after + 1 - seq; skip > 0 {
			batch = batch[min(skip, int64(len(batch))):]
		}
		events = append(events, batch...)
		for _, e := range batch {
			bytes -= int64(len(e.Data))
		}
		if bytes <= 0 {
			return errStop
		}
		return nil
	})
	return events, err
}

// batches calls use for each row that contains numbers in (after, to] of a
// sequence. It stops after the row whose body reaches the given bytes, or when use
// returns errStop.
func (s *Store) batches(ctx context.Context, table, run string, after, to, bytes int64, use func(seq, floor int64, body []byte) error) error {
	if to <= after {
		return nil
	}
	query, args := `from `+table+`
		where run_id = $1 and seq <= $3 and last > $2
			and seq >= coalesce((select max(seq) from `+table+` where run_id = $1 and seq <= $4), 0)`, []any{run, after, to, after + 1}
	if s.d.EagerRows && bytes < math.MaxInt64 {
		query, args = `from (select *, sum(length(body)) over (order by seq) - length(body) as before `+query+`) b where before < $5`, append(args, bytes)
	}
	rows, err := queryRows(ctx, s.db.Read, `select seq, floor, body `+query+` order by seq`, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var seq, floor int64
		var body []byte
		if err := rows.Scan(&seq, &floor, &body); err != nil {
			return err
		}
		if err := use(seq, floor, body); err != nil {
			if errors.Is(err, errStop) {
				return nil
			}
			return err
		}
	}
	return rows.Err()
}
