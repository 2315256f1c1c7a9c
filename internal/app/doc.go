// Package app answers: how is it wired?
//
// It is the only package that imports adapters. Run opens, in this order, what
// later parts rest on, and closes it in the reverse order:
//
//	data folder → keys → database → blobs → wake-ups → use cases → chores,
//	worker → login socket → HTTP
//
// On the way down the worker stops taking runs and lets running ones go on for
// the drain time, while readers still follow them; then streams end, then HTTP,
// then the database.
package app
