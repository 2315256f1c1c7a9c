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
// order: worker, session, run, slot of the journal, tree, counters of the
// organisation, counters of the agent. The session comes before its runs
// because whoever ends one run makes another of them ready. Claims take
// counters before runs, but never wait for a run. So there is no cycle.
package sqlstore
