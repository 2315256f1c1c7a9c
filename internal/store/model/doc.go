// Package model answers: is the protocol of a run right?
//
// Its test visits every state that a few workers, a reaper and a user can
// bring one run into, with crashes, pauses and lost acknowledgements at any
// step, and checks what the store promises in each of them. It visits broken
// variants of the protocol too and names the promise that each one breaks, so
// that a rule that matters cannot be dropped unseen.
package model
