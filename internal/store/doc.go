// Package store defines the port for the database.
//
// Every method is one transaction that preserves the invariants below; the
// transaction itself is not visible to callers. The adapters sqlite and
// postgres pass the suite in storetest, which defines the semantics.
//
// # The protocol of a run
//
// A run is one row and one append-only journal. Every change of a run's status
// is an event at the next slot of its journal. Slots are numbered from 1, and each
// event takes one. The journal's primary key (run, first slot) decides which of two
// concurrent writers succeeds. An append takes only its slot. A transition (claim,
// finish, cancel, reap) is one transaction that locks the session, the run's row, the
// slot, and the counters, in this order. The session is locked first because the end of a run makes the
// session's next run ready.
//
// It follows that a worker that lost its run or was paused cannot append, that
// no event follows the terminal event, and that status, terminal event,
// version, and checkpoint agree when a run ends. AddCheckpoint is the one
// change of an ended run; see its comment.
//
// A batch of events is one row of the journal and takes as many slots as it has
// events. Positions are always between batches.
//
// Times are truncated to milliseconds before they are stored and never decrease
// within a journal, nor within the log entries beside it: a stored time is the
// later of its own and its predecessor's.
package store
