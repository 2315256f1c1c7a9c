// Package sqlstore answers: how is the store told in SQL?
//
// It holds every statement that SQLite and PostgreSQL understand alike, over a
// minimal interface of database/sql. The adapters add how a database is opened
// and migrated, how a write transaction runs, and what their engine does best.
//
// Times are integer microseconds, JSON is text, truth is 0 or 1, parameters
// are $1, $2 …. Text that comes from users may hold what PostgreSQL's text
// cannot, so it is escaped; see escape.
//
// # Order of locks
//
// Where rows are locked (PostgreSQL), every transaction takes them in one
// order: worker, session, run, slot of the journal or the side log, artifact.
// The session comes before its runs because whoever ends one run makes another
// of them ready. Claims hold an organisation's counters before its runs, but
// pass over runs that are locked, and nobody else locks counters. Transactions
// that touch several runs are of one run each, or take them sorted. So there is
// no circle.
package sqlstore
