// Package storetest is the suite that every adapter of the store port passes.
//
// Every sentence of the port has a case that fails without it. The cases are grouped
// by subject, one file each. Three groups search at random: Linearizable checks a
// recorded history of concurrent clients against the protocol, the state machine
// group compares one run with a reference in memory, and the list group reads pages
// while items are added. Mutants shows that the history check detects faulty stores.
package storetest
