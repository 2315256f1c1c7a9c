// Package sqlstore implements the store port in SQL for SQLite and PostgreSQL.
//
// It contains every statement that is the same in both, and executes them through a
// minimal interface to database/sql (Querier). The adapters open and migrate the database, run
// write transactions, and supply the statements that differ.
//
// Times are integer microseconds, JSON is text, booleans are 0 or 1, and
// parameters are $1, $2 …. Text from users may contain bytes that PostgreSQL
// does not accept, so it is escaped; see escape.
//
// # Lock order
//
// Where rows are locked (PostgreSQL), every transaction takes locks in this
// order: worker, session, run, file set, slot of the journal, slot of the side log.
// The session comes before its runs because the end of one run makes another run of
// the session ready. Claims lock an organisation's counters before its runs, but skip
// locked runs. The only other transaction that locks counters (Reap of PostgreSQL)
// skips locked counters and takes none of the locks above. A transaction that appends
// to several runs takes their slots in sorted order. So there is no deadlock.
package sqlstore
