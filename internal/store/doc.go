// Package store answers: what must a database do?
//
// It is a port. Every method is one transaction that keeps an invariant; no
// transaction type escapes. The adapters sqlite and postgres pass the suite
// in storetest, which defines the semantics.
//
// # The protocol of a run
//
// A run is one row and one append-only journal. Every change of a run is an
// event at the next slot of its journal; the journal's key (run, first slot)
// says who came first. Appends touch only the slot. Transitions (claim,
// finish, cancel, reap) take the session, then the run's row, then the slot,
// then the counters, in one transaction; the session comes first because an
// end makes the session's next run ready. So a worker that was lost or paused
// can append nothing, nothing follows the terminal event, and status, terminal
// event, version and checkpoint agree.
//
// One batch of events is one row of the journal and takes as many slots as it
// has events; positions lie between batches only.
//
// Times are cut to milliseconds before they are stored and never step back
// within a journal, nor within the log entries beside it: a time is the later
// of its own and its predecessor's.
package store
