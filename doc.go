// Package stint answers: what do the words of the Stint API mean?
//
// It holds the nouns that clients see (runs, events, agents, artifacts,
// volumes, sessions, checkpoints, tokens), the rules that bind them and the
// errors that break them. It imports the standard library only and does no
// I/O, so a server, a client and a test all speak of the same Run.
package stint
