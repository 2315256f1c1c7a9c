// Package pgnotify implements notify.Bus for processes that share a PostgreSQL
// database, with LISTEN and NOTIFY on one channel.
//
// NOTIFY takes a server-wide lock at commit, so it is never sent in a transaction
// with other statements. Topics that are published while the previous notification
// is being sent, or within 2 ms after it, are sent as one statement on a separate
// connection. A single publication is sent at once. Subscribers of the same process
// are woken directly.
//
// A lost connection is re-established with increasing pauses. PostgreSQL does not
// keep notifications for a disconnected process, so all subscribers are woken when
// the process listens again.
package pgnotify
