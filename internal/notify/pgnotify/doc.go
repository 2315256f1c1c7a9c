// Package pgnotify answers: how do processes that share a PostgreSQL wake
// each other?
//
// By LISTEN and NOTIFY on one channel. NOTIFY takes a lock of the whole
// server at commit, so it is never sent from a transaction that does anything
// else: what is published while the previous notification is under way, or
// within 2 ms of it, goes out as one statement on a connection kept for that.
// A lone publication leaves at once. Subscribers of the same process are
// woken directly.
//
// A lost connection is made again with growing pauses. Since notifications
// are not kept for who is away, all subscribers are woken once the process
// listens again.
package pgnotify
