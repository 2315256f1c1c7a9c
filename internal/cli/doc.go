// Package cli implements the command line.
//
// Each command has a file of its own. Commands use a server only through
// package client, and arguments, environment, streams, clock, and signals only
// through Env, so tests can replace them. Results are written to standard
// output, everything else to standard error.
package cli
