// Package app opens, starts, and stops a server.
//
// It is the only package that imports adapters. Run opens the parts in this order
// and closes them in the reverse order:
//
//	data folder → keys → database, wake-ups → storage → use cases → worker →
//	HTTP, admin socket → jobs
//
// During shutdown the worker claims no more runs, and running ones may continue for
// the drain time while readers follow them. Then streams end, then HTTP, then the
// database.
package app
