package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"math"
	"strconv"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/store"
)

// errContention reports that other writers took the slot or the key maxTries times.
var errContention = errors.New("too many concurrent writers to the journal")

// errSlotTaken reports that a position does not own its run, for example because
// another writer took the next slot.
var errSlotTaken = errors.New("the slot is taken")

// maxTries limits the attempts to take a slot or an idempotency key. Each failed
// attempt means that another write succeeded, so few are needed.
const maxTries = 1000

// alive is the condition that the lease of the worker of run $1 was not ended. It also
// holds for an expired lease until Reap ends the lease.
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

// entriesToken returns the token of the log entries. It includes the epoch,
// because a worker's tokens may repeat in another epoch and the rows of log
// entries have no epoch.
func (a EncodedBatch) entriesToken() string {
	if a.Token == "" {
		return ""
	}
	return strconv.FormatInt(a.At.Epoch, 10) + "/" + a.Token
}

// EncodeBatch encodes a batch to be stored at a position. It fails if the metadata of a
// log entry cannot be encoded as JSON.
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
			err = InsertEntries(ctx, q, a)
		}
		return a.At.After + a.Events.Count, err
	})
}

// ResolveConflict returns the result of an append that could not take its slot. If the
// same batch is stored there, the append is a retry, and the result is the batch's last
// event number. Otherwise the error is a *store.FencedError.
func (s *Store) ResolveConflict(ctx context.Context, q Querier, a EncodedBatch) (int64, error) {
	last, err := one(ctx, q, value[int64], `select last from journal
		where run_id = $1 and seq = $2 and owner = $3 and owner > 0 and token = $4 and token <> ''`, a.At.RunID, a.At.After+1, a.At.Epoch, a.Token)
	if errors.Is(err, store.ErrNotFound) {
		return 0, fence(ctx, q, a.At.RunID)
	}
	return last, err
}

// fence returns a *store.FencedError with the state of a run. Its fields are zero if
// the run does not exist.
func fence(ctx context.Context, q Querier, run string) error {
	f := new(store.FencedError)
	err := queryRow(ctx, q, `select r.status, r.epoch, (select last from journal where run_id = r.id order by seq desc limit 1)
		from runs r where r.id = $1`, run).Scan(&f.Status, &f.Epoch, &f.Head)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	return f
}

// AppendEntries stores the log entries of a batch without events, and returns
// a.At.After. If the run is not running in the batch's epoch, or the worker's lease was
// ended, the error is a *store.FencedError. If the batch was stored last, it is not
// stored again.
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
		if err != nil || len(last) == 1 && last[0] == a.entriesToken() && a.Token != "" {
			return a.At.After, err
		}
		done := true
		if err := run(ctx, q, a.insertEntries(func() { done = false })); err != nil || done {
			return a.At.After, err
		}
	}
	return 0, errContention
}

// AddLogs adds entries to the side log of a run.
func (s *Store) AddLogs(ctx context.Context, run string, entries []stint.LogEntry) error {
	b, err := EncodeBatch(store.Position{RunID: run}, store.Batch{Logs: entries})
	if err != nil {
		return err
	}
	return s.write(ctx, "adding log entries", func(ctx context.Context, q Querier) error { return InsertEntries(ctx, q, b) })
}

// InsertEntries appends the log entries of batches to the side logs of their runs. Each
// batch must belong to a different run.
func InsertEntries(ctx context.Context, q Querier, batches ...EncodedBatch) error {
	for range maxTries {
		var steps []Step
		var left []EncodedBatch
		for _, b := range batches {
			steps = append(steps, b.insertEntries(func() { left = append(left, b) }))
		}
		if err := run(ctx, q, steps...); err != nil || len(left) == 0 {
			return err
		}
		batches = left
	}
	return errContention
}

// insertEntries returns a step that appends log entries to the side log of the run. It
// calls refused if a concurrent writer took the numbers of the entries.
func (a EncodedBatch) insertEntries(refused func()) Step {
	insert := step(`insert into log_entries (run_id, seq, last, token, floor, at, body)
		select $1, coalesce(p.last, 0) + 1, coalesce(p.last, 0) + $2, $3, coalesce(p.at, 0), case when p.at > $4 then p.at else $4 end, $5
		from (select 1 as one) o left join log_entries p
			on p.run_id = $1 and p.seq = (select max(seq) from log_entries where run_id = $1)
		where true
		on conflict do nothing`, a.At.RunID, a.Entries.Count, a.entriesToken(), a.Entries.At, a.Entries.Body)
	insert.Done = func(n int64) error {
		if n == 0 {
			refused()
		}
		return nil
	}
	return insert
}

// insertFirst returns a step that stores event 1 of a run.
func insertFirst(run string, p EncodedRow) Step {
	return stepOne(store.ErrExists, `insert into journal (run_id, seq, last, owner, token, floor, at, body)
		values ($1, 1, $2, 0, '', $3, $3, $4) on conflict do nothing`, run, p.Count, p.At, p.Body)
}

// transition is a change of a run's status, stored as its next events. The run's
// row is locked, but appends can still take slots.
type transition struct {
	run    string
	owned  *int64 // number of the event that the transition must follow; nil means any head
	token  string
	starts bool // whether the run's epoch may append after the transition; otherwise no epoch may
	events EncodedRow
	head   int64 // number of the transition's last event; 0 if it is not stored
}

// insert returns a step that stores the transition at the next slot and sets t.head,
// unless a concurrent append takes the slot first or the head is not *t.owned.
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

// settle is called after insert has run. If the slot was taken, it repeats insert until
// the transition is stored or, if the transition must follow a certain event, returns
// errSlotTaken.
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

// Events returns events with numbers greater than after.
func (s *Store) Events(ctx context.Context, run string, after int64, limit int) ([]stint.Event, error) {
	events, err := s.eventsBetween(ctx, run, after, upTo(after, limit), store.MaxReadBytes)
	return events, s.Wrap("reading events", err)
}

// upTo returns after + limit, but at least after + 1, without overflow.
func upTo(after int64, limit int) int64 {
	return after + min(int64(max(limit, 1)), math.MaxInt64-max(after, 0))
}

// eventsBetween returns the events with numbers greater than after. It stops at the end
// of the batch that contains the number to, or of the batch with which the data of the
// events reaches the given number of bytes. Numbers have no gaps, so the range also
// limits the number of events.
func (s *Store) eventsBetween(ctx context.Context, run string, after, to, bytes int64) ([]stint.Event, error) {
	var events []stint.Event
	for row, err := range s.batches(ctx, `journal`, run, after, to, bytes) {
		if err != nil {
			return events, err
		}
		batch, err := DecodeEvents(row.body, row.seq, row.floor)
		if err != nil {
			return events, fmt.Errorf("batch %d of run %s: %w", row.seq, run, err)
		}
		batch = batch[min(max(after+1-row.seq, 0), int64(len(batch))):]
		events = append(events, batch...)
		for _, e := range batch {
			bytes -= int64(len(e.Data))
		}
		if bytes <= 0 {
			break
		}
	}
	return events, nil
}

// encodedBatch is a row of the journal or of the side log.
type encodedBatch struct {
	seq, floor int64
	body       []byte
}

func scanBatch(r Row) (b encodedBatch, err error) { return b, r.Scan(&b.seq, &b.floor, &b.body) }

// batches returns the rows that contain numbers in (after, to] of a sequence. With
// EagerRows, it stops at the row with which the bodies reach the given number of bytes.
func (s *Store) batches(ctx context.Context, table, run string, after, to, bytes int64) iter.Seq2[encodedBatch, error] {
	if to <= after {
		return func(func(encodedBatch, error) bool) {}
	}
	query, args := `from `+table+`
		where run_id = $1 and seq <= $3 and last > $2
			and seq >= coalesce((select max(seq) from `+table+` where run_id = $1 and seq <= $4), 0)`, []any{run, after, to, after + 1}
	if s.d.EagerRows && bytes < math.MaxInt64 {
		query, args = `from (select *, sum(length(body)) over (order by seq) - length(body) as before `+query+`) b where before < $5`, append(args, bytes)
	}
	return rows(ctx, s.db.Read, scanBatch, `select seq, floor, body `+query+` order by seq`, args...)
}
