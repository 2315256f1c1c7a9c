// Package storetest is the suite that every adapter of the store port passes.
//
// For every sentence in the port's comments, a case fails if an adapter violates it.
// The cases are grouped by subject, one file per group. Three groups use random
// input: Linearizable checks a recorded history of concurrent clients against the
// protocol, the state machine group compares one run with a reference in memory, and
// the list group reads pages while items are added. Mutants shows that the check of
// Linearizable detects faulty stores.
package storetest
