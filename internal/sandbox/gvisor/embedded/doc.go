// Package embedded links gVisor's runsc, about 60 MB, into the program. No other
// package of the program imports runsc. A program that calls MaybeRunsc runs as runsc if
// the last element of its argv[0] begins with runsc. It must be built without cgo.
package embedded
