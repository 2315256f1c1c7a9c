// Package app opens, starts, and stops a server.
//
// It is the only package that imports adapters. Run opens the parts in this order
// and closes them in the reverse order:
//
//	data folder → keys → database, wake-ups → storage → use cases → worker →
//	HTTP, admin socket → jobs
//
// During shutdown the worker claims no more runs. Active runs may continue for the
// drain time, and clients can follow them. Then the server ends the event streams,
// stops HTTP, and closes the database.
package app
