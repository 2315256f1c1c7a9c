// Package store defines the port for the database.
//
// Every method is one transaction, except for some methods that handle many rows, which
// use a transaction for each run or for each batch of rows (for example Reap, Expire,
// MarkObjects, and PruneVersions). Each transaction preserves the invariants below. The
// adapters sqlite and postgres pass the suite in storetest.
//
// # The protocol of a run
//
// A run is one row and one append-only journal. In this package, a slot is the place of
// one event in a journal; slots are numbered from 1. Every change of a run's status is
// an event at the next slot. The journal's primary key (run, first slot of a batch)
// decides which of two concurrent writers succeeds. An append takes only its slots. A
// transition is one transaction. The transitions finish, cancel, and reap lock the
// session, the run's row, the slot, and the counters, in this order. The session is
// locked first because the end of a run makes the session's next run ready. A claim
// locks the counters first, and skips runs that are locked.
//
// It follows that a worker that lost its run or was paused cannot append, that
// no event follows the terminal event, and that status, terminal event,
// version, and checkpoint agree when a run ends. AddCheckpoint is the one
// change of an ended run; see its comment.
//
// A batch of events is one row of the journal and takes as many slots as it has
// events. The field After of a Position is always the number of a batch's last event.
//
// Times are truncated to milliseconds before they are stored and never decrease
// within a journal, nor within the log entries beside it: a stored time is the
// later of its own and its predecessor's.
package store
