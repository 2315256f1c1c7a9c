// Package storetest is the suite that every adapter of the store port must pass.
//
// The comments of package store are the specification. If an adapter violates a sentence of
// these comments, at least one test case fails. Each file contains the cases of one subject.
//
// Three tests use random input. Linearizable records the calls of concurrent clients and
// checks this history against the protocol. The state machine test compares one run with a
// reference in memory. The paging test reads the pages of a list while items are added.
// Mutants checks that Linearizable detects faulty stores.
package storetest
