// Package stint defines the types, identifiers, and errors of the Stint API:
// runs, events, agents, artifacts, volumes, sessions, checkpoints, and tokens.
//
// It imports only the standard library and does no I/O. The server, the client,
// and the tests share these types.
package stint
