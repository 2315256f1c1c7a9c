// Package cli implements the command line.
//
// Most commands have a file of their own. Commands use the public API of a server
// only through package client, except that doctor requests /healthz itself. They
// use arguments, environment variables, streams, the clock, and signals only
// through Env, so that tests can replace them. Results are written to standard
// output, everything else to standard error.
package cli
