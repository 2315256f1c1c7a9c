// Package cli answers: what can a person type?
//
// Each command stands in a file of its own. Commands reach a server through
// package client only, and the world (arguments, environment, streams, clock,
// signals) through one Env, so a test can be the world. Results go to standard
// output, everything else to standard error.
package cli
