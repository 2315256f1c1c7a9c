// Package model checks the protocol of a run by exhaustive search.
//
// Its test visits every state that a few workers, a reaper, and a user can bring
// one run into, with crashes, pauses, and lost acknowledgements at every step, and
// checks the invariants of the store in each state. It also visits variants of the
// protocol without one of its rules, and checks which invariant each one breaks, so
// that no necessary rule can be removed unnoticed.
package model
